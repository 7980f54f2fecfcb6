/* Making the trace folder, with those above it, and opening the files in it.
 *
 * The names of folders and files can be guessed. Where others can write as well, as in /tmp, they
 * can have made the folder, or have put a link in the place of a file, so that we would overwrite
 * what the link leads to. So a link is never followed, a folder or file of another owner is refused,
 * and a file that has another name elsewhere. What is made is for this user alone, unless --share
 * was given.
 *
 * Some file systems give all files an owner of their own: there this process's are those that have
 * the owner of a file that it has just made.
 *
 * Threads: any, but only one makes a folder.
 */
#include "trace/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/common.h"
#include "base/guard.h"
#include "base/recorder.h"
#include "trace/owned.h"

enum { NAME_BYTES = 400, NOT_PLAIN = ELOOP, NOT_MINE = EPERM };

static mode_t folder_mode(void)
{
    return recorder.options.share ? 0777 : 0700;
}

static mode_t file_mode(void)
{
    return recorder.options.share ? 0666 : 0600;
}

/* Returns what an errno of this file means, for messages. */
const char *folder_error(int reason)
{
    return reason == NOT_PLAIN  ? "it, or a file in it, is a link"
           : reason == NOT_MINE ? "it, or a file in it, belongs to another user"
                                : strerror(reason);
}

/* Creates a file that nobody else uses, and leaves its name in `name`; returns -1 if it can't. */
static int temporary(int folder, const char *base, char *name)
{
    int made = -1;

    for (int tries = 0; tries < 8 && made < 0; tries++) {
        snprintf(name, NAME_BYTES, ".%.300s.%d-%llx", base, (int)getpid(),
                 (unsigned long long)now_ns());
        made =
            openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file_mode());
        if (made < 0 && errno != EEXIST)
            break;
    }
    return made;
}

/* Returns whether a folder belongs to this user. */
static bool is_mine(int folder, const struct stat *s)
{
    char name[NAME_BYTES];
    struct stat made = {0};

    if (s->st_uid == geteuid())
        return true;
    const int probe = temporary(folder, "owner", name);

    if (probe < 0)
        return false;
    const bool mine = guard_file_status(probe, &made) && made.st_uid == s->st_uid;

    unlinkat(folder, name, 0);
    close(probe);
    return mine;
}

/* Returns a descriptor of a folder of this user; -1: errno says why not. */
static int enter(const char *path, struct stat *s)
{
    const int folder = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char end[1];

    if (folder < 0) {
        if (errno == ENOTDIR && readlink(path, end, sizeof end) >= 0)
            errno = NOT_PLAIN;
        return -1;
    }
    if (guard_file_status(folder, s) && is_mine(folder, s))
        return folder;
    close(folder);
    errno = NOT_MINE;
    return -1;
}

static bool is_usable(const char *path)
{
    struct stat s;
    const int folder = enter(path, &s);

    if (folder >= 0)
        close(folder);
    return folder >= 0;
}

bool folder_make(const char *path)
{
    char part[PATH_BYTES];

    /* Thousands of ranks come here: of a folder that is there, few questions each. */
    if (mkdir(path, folder_mode()) == 0)
        return true;
    if (errno == EEXIST)
        return is_usable(path);
    for (size_t i = 1; path[i] != '\0' && i < sizeof part; i++)
        if (path[i] == '/') {
            memcpy(part, path, i);
            part[i] = '\0';
            mkdir(part, folder_mode());
        }
    return mkdir(path, folder_mode()) == 0 || (errno == EEXIST && is_usable(path));
}

/* Makes the wanted folder, or BASE-date-time, made unique; its path is left in `path`. */
bool folder_make_unique(char *path, const char *wanted, const char *base)
{
    char stamp[32];
    const time_t now = time(NULL);
    struct tm local;

    if (wanted != NULL && wanted[0] != '\0') {
        snprintf(path, PATH_BYTES, "%s", wanted);
        return folder_make(path);
    }
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
    snprintf(path, PATH_BYTES, "%s-%s", base, stamp);
    if (mkdir(path, folder_mode()) == 0)
        return true;
    for (int n = 2; errno == EEXIST && n < 1000; n++) {
        snprintf(path, PATH_BYTES, "%s-%s-%d", base, stamp, n);
        if (mkdir(path, folder_mode()) == 0)
            return true;
    }
    return false;
}

/* Opens a file that is there already: one of this user, under this name alone. */
static int open_there(int folder, const struct stat *in, const char *name, int flags)
{
    const int found = openat(folder, name, flags & ~(O_CREAT | O_EXCL));
    const bool writes = (flags & O_ACCMODE) != O_RDONLY; /* a mark has two names for a moment */
    struct stat s;

    if (found < 0)
        return -1;
    const bool known = guard_file_status(found, &s);
    const int fault = !known || !S_ISREG(s.st_mode) || (writes && s.st_nlink > 1) ? NOT_PLAIN
                      : s.st_uid != in->st_uid                                    ? NOT_MINE
                                                                                  : 0;

    if (fault == 0)
        return found;
    close(found);
    errno = fault;
    return -1;
}

/* Opens a file in a folder of ours. flags: those of open; with O_CREAT alone, another rank may have
 * made it. Returns -1 if it can't, and errno says why. */
int folder_open(const char *folder, const char *name, int flags)
{
    struct stat s;
    const int within = enter(folder, &s);
    int found = -1;

    if (within < 0)
        return -1;
    flags |= O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    if ((flags & O_CREAT) != 0)
        found = openat(within, name, flags | O_EXCL, file_mode());
    if (found < 0 && ((flags & O_CREAT) == 0 || ((flags & O_EXCL) == 0 && errno == EEXIST)))
        found = open_there(within, &s, name, flags);
    const int reason = errno;

    close(within);
    errno = reason;
    return found;
}

/* ---- marks: small files that have their text from the first moment */

/* Makes a mark, by a link to a file that has been written. Returns false if it can't be made;
 * errno EEXIST: there is one already, which stays. */
bool folder_mark(const char *folder, const char *name, const char *text)
{
    char made[NAME_BYTES];
    struct stat s;
    const int within = enter(folder, &s);
    const int file = within >= 0 ? temporary(within, name, made) : -1;
    bool done = false;
    int reason = errno;

    if (file >= 0) {
        const struct iovec part = {(void *)(uintptr_t)text, strlen(text)};

        /* The answer of a file server can get lost: the file itself says whether it has two names. */
        done = owned_write(file, &part, 1, 0) == (ssize_t)part.iov_len &&
               (linkat(within, made, within, name, 0) == 0 ||
                (errno == EEXIST && guard_file_status(file, &s) && s.st_nlink > 1));
        reason = errno;
        unlinkat(within, made, 0);
        close(file);
    }
    if (within >= 0)
        close(within);
    errno = reason;
    return done;
}

/* Reads a mark; returns false if there is none. */
bool folder_marked(const char *folder, const char *name, char *text, size_t room)
{
    const int file = folder_open(folder, name, O_RDONLY);
    const ssize_t length = file >= 0 ? read(file, text, room - 1) : -1;

    if (file >= 0)
        close(file);
    if (length >= 0)
        text[length] = '\0';
    return length >= 0;
}

void folder_unmark(const char *folder, const char *name)
{
    char path[PATH_BYTES + NAME_BYTES];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}
