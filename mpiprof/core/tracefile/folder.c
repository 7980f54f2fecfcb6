/* Creation of the trace folder, with its parents, and of the files in it.
 *
 * The names of folders and files are predictable. If others can write to the parent folder, as in
 * /tmp, they may have created the folder, or a link instead of a file, so that the link's target
 * would be overwritten. So this file never follows links, and rejects folders and files of another
 * owner and files with other hard links. New files and folders are private to the user, unless
 * --share was given.
 *
 * Some file systems give all files an owner other than the user. There, the user's files have
 * the same owner as a file that this process has just created.
 *
 * Threads: any, but only one creates a folder.
 */
#include "tracefile/tracefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/recorder.h"

enum { NAME_BYTES = 400, NOT_PLAIN = ELOOP, NOT_MINE = EPERM };

/* Return the permissions of a new file or folder, given those of a shared one. */
static mode_t mode_of(mode_t shared)
{
    return recorder.options.share ? shared : shared & 0700;
}

/* Return the message for an errno of this file. */
const char *folder_error(int reason)
{
    return reason == NOT_PLAIN  ? "the folder or a file in it is a link"
           : reason == NOT_MINE ? "the folder or a file in it belongs to another user"
                                : strerror(reason);
}

/* Create a file that nobody else uses, and store its name in `name`. Returns -1 on failure. */
static int temporary_create(int folder, const char *base, char *name)
{
    int made = -1;

    for (int tries = 0; tries < 8 && made < 0; tries++) {
        snprintf(name, NAME_BYTES, ".%.300s.%d-%llx", base, (int)getpid(),
                 (unsigned long long)now_ns());
        made =
            openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode_of(0666));
        if (made < 0 && errno != EEXIST)
            break;
    }
    return made;
}

/* Return true if a folder belongs to this user. */
static bool belongs_to_user(int folder, const struct stat *s)
{
    char name[NAME_BYTES];
    struct stat made = {0};

    if (s->st_uid == geteuid())
        return true;
    const int probe = temporary_create(folder, "owner", name);

    if (probe < 0)
        return false;
    const bool mine = signal_guard_file_status(probe, &made) && made.st_uid == s->st_uid;

    unlinkat(folder, name, 0);
    close(probe);
    return mine;
}

/* Return a descriptor of a folder of this user, or -1 with errno set. */
static int own_folder_open(const char *path, struct stat *s)
{
    const int folder = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char end[1];

    if (folder < 0) {
        if (errno == ENOTDIR && readlink(path, end, sizeof end) >= 0)
            errno = NOT_PLAIN;
        return -1;
    }
    if (signal_guard_file_status(folder, s) && belongs_to_user(folder, s))
        return folder;
    close(folder);
    errno = NOT_MINE;
    return -1;
}

static void parents_create(const char *path)
{
    char *const part = memory_copy_text(path);

    for (char *end = part; end != NULL && (end = strchr(end + 1, '/')) != NULL; *end = '/') {
        *end = '\0';
        mkdir(part, mode_of(0777));
    }
    memory_free(part);
}

/* Create a folder and its parents. Returns true if it exists now and belongs to this user. */
bool folder_create(const char *path)
{
    /* Thousands of ranks call this, so an existing folder must need few queries. */
    bool made = mkdir(path, mode_of(0777)) == 0;
    struct stat s;

    if (!made && errno != EEXIST) {
        parents_create(path);
        made = mkdir(path, mode_of(0777)) == 0;
    }
    if (made || errno != EEXIST)
        return made;
    const int folder = own_folder_open(path, &s);

    if (folder >= 0)
        close(folder);
    return folder >= 0;
}

/* Create the requested folder, or a unique BASE-date-time. Stores its path in `path`. */
bool folder_create_unique(char *path, const char *wanted, const char *base)
{
    char stamp[32];
    const time_t now = time(NULL);
    struct tm local;

    if (wanted != NULL && wanted[0] != '\0') {
        snprintf(path, PATH_BYTES, "%s", wanted);
        return folder_create(path);
    }
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
    snprintf(path, PATH_BYTES, "%s-%s", base, stamp);
    bool made = mkdir(path, mode_of(0777)) == 0;

    for (int n = 2; !made && errno == EEXIST && n < 1000; n++) {
        snprintf(path, PATH_BYTES, "%s-%s-%d", base, stamp, n);
        made = mkdir(path, mode_of(0777)) == 0;
    }
    return made;
}

/* Open an existing file. Fails unless it belongs to this user and has no other hard link. */
static int own_file_open(int folder, const struct stat *in, const char *name, int flags)
{
    const int found = openat(folder, name, flags & ~(O_CREAT | O_EXCL));
    const bool writes = (flags & O_ACCMODE) != O_RDONLY; /* a mark has two names for a moment */
    struct stat s;

    if (found < 0)
        return -1;
    const bool known = signal_guard_file_status(found, &s);
    const int fault = !known || !S_ISREG(s.st_mode) || (writes && s.st_nlink > 1) ? NOT_PLAIN
                      : s.st_uid != in->st_uid                                    ? NOT_MINE
                                                                                  : 0;

    if (fault == 0)
        return found;
    close(found);
    errno = fault;
    return -1;
}

/* Open a file in a folder of this user. `flags` is that of open; with O_CREAT but not O_EXCL,
 * another rank may have created the file. Returns -1 with errno set on failure. */
int folder_open(const char *folder, const char *name, int flags)
{
    struct stat s;
    const int within = own_folder_open(folder, &s);
    int found = -1;

    if (within < 0)
        return -1;
    flags |= O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    if ((flags & O_CREAT) != 0)
        found = openat(within, name, flags | O_EXCL, mode_of(0666));
    if (found < 0 && ((flags & O_CREAT) == 0 || ((flags & O_EXCL) == 0 && errno == EEXIST)))
        found = own_file_open(within, &s, name, flags);
    const int reason = errno;

    close(within);
    errno = reason;
    return found;
}

/* ---- marks: small files that get their text atomically */

/* Create a mark, as a link to a written file. Returns false on failure, with errno EEXIST if the
 * mark exists already; then it is unchanged. */
bool folder_add_mark(const char *folder, const char *name, const char *text)
{
    char made[NAME_BYTES];
    struct stat s;
    const int within = own_folder_open(folder, &s);
    const int file = within >= 0 ? temporary_create(within, name, made) : -1;
    bool done = false;
    int reason = errno;

    if (file >= 0) {
        const struct iovec part = {(void *)(uintptr_t)text, strlen(text)};

        /* A file server's reply may get lost, so the link count shows if the mark was created. */
        done = fd_guard_write(file, &part, 1, 0) == (ssize_t)part.iov_len &&
               (linkat(within, made, within, name, 0) == 0 ||
                (errno == EEXIST && signal_guard_file_status(file, &s) && s.st_nlink > 1));
        reason = errno;
        unlinkat(within, made, 0);
        close(file);
    }
    if (within >= 0)
        close(within);
    errno = reason;
    return done;
}

/* Read a mark. Returns false if it does not exist. */
bool folder_read_mark(const char *folder, const char *name, char *text, size_t room)
{
    const int file = folder_open(folder, name, O_RDONLY);
    const ssize_t length = file >= 0 ? read(file, text, room - 1) : -1;

    if (file >= 0)
        close(file);
    if (length >= 0)
        text[length] = '\0';
    return length >= 0;
}

void folder_remove_mark(const char *folder, const char *name)
{
    struct stat s;
    const int within = own_folder_open(folder, &s);

    if (within < 0)
        return;
    unlinkat(within, name, 0);
    close(within);
}
