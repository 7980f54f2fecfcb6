/* Files of our own among the program's descriptors: kept apart, and written to with care.
 *
 * A program may close all descriptors that it does not know, and their numbers be used again: each
 * write first asks whether the descriptor is still ours.
 */
#include "trace/owned.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/guard.h"
#include "trace/event.h"

enum { FIRST_DESCRIPTOR = 500 };

bool owned_is_ours(const struct owned *f)
{
    struct stat s;

    return guard_file_status(f->descriptor, &s) && s.st_dev == f->device && s.st_ino == f->inode;
}

/* posix_fallocate where a signal handler without SA_RESTART or a file size limit may be met. */
int owned_reserve(int descriptor, off_t offset)
{
    struct guard g;
    int failed;

    guard_begin(&g);
    do
        failed = posix_fallocate(descriptor, offset, CHUNK_BYTES);
    while (failed == EINTR);
    guard_end(&g);
    return failed;
}

/* Writes all of at most three parts, at an offset or (-1) where the file ends: a signal or a nearly
 * full disk may let less through at a time. Returns how much was written; less: errno says why. */
ssize_t owned_write(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    struct iovec left[3] = {0};
    size_t all = 0, done = 0;
    struct guard g;

    for (int i = 0; i < count; i++) {
        left[i] = parts[i];
        all += parts[i].iov_len;
    }

    guard_begin(&g);
    while (done < all) {
        const ssize_t written = offset < 0 ? writev(descriptor, left, count)
                                           : pwritev(descriptor, left, count, offset + (off_t)done);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        done += (size_t)written;
        for (size_t i = 0, taken = (size_t)written; i < 3; i++) {
            const size_t part = taken < left[i].iov_len ? taken : left[i].iov_len;

            left[i].iov_base = (char *)left[i].iov_base + part;
            left[i].iov_len -= part;
            taken -= part;
        }
    }
    guard_end(&g);
    return done > 0 || all == 0 ? (ssize_t)done : -1;
}

/* Keep off the low numbers, which programs expect to be theirs; as far as the limit lets us. */
struct owned owned_take(int descriptor)
{
    struct stat s;
    int high = -1;

    for (int lowest = FIRST_DESCRIPTOR; high < 0 && lowest > descriptor; lowest /= 2)
        high = fcntl(descriptor, F_DUPFD_CLOEXEC, lowest);
    if (high >= 0) {
        close(descriptor);
        descriptor = high;
    }
    if (!guard_file_status(descriptor, &s))
        return (struct owned){.descriptor = -1};
    return (struct owned){descriptor, s.st_dev, s.st_ino};
}
