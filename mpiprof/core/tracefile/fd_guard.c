/* The recorder's file descriptors, guarded against a program that closes or reuses them.
 *
 * A program may close all descriptors that it did not open, and the numbers may be reused. So
 * before each write, the recorder checks that the descriptor still refers to its file.
 */
#include "tracefile/tracefile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_DESCRIPTOR = 500 };

bool fd_guard_is_valid(const struct fd_guard *f)
{
    struct stat s;

    return signal_guard_file_status(f->descriptor, &s) && s.st_dev == f->device &&
           s.st_ino == f->inode;
}

/* Reserve disk space for a chunk with posix_fallocate, under signal handlers without SA_RESTART and
 * file size limits. */
int fd_guard_reserve(int descriptor, off_t offset)
{
    struct signal_guard g;
    int failed;

    signal_guard_begin(&g);
    do
        failed = posix_fallocate(descriptor, offset, CHUNK_BYTES);
    while (failed == EINTR);
    signal_guard_end(&g);
    return failed;
}

/* Write at most three parts completely, at an offset or, if it is -1, at the end of the file. A
 * signal or a nearly full disk may split the write. Returns the number of bytes written; if it is
 * too small, errno contains the reason. */
ssize_t fd_guard_write(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    struct iovec left[3] = {0};
    size_t all = 0, done = 0;
    struct signal_guard g;

    for (int i = 0; i < count; i++) {
        left[i] = parts[i];
        all += parts[i].iov_len;
    }

    signal_guard_begin(&g);
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
    signal_guard_end(&g);
    return done > 0 || all == 0 ? (ssize_t)done : -1;
}

/* Move the descriptor to a high number if possible, because programs expect to get the low ones. */
struct fd_guard fd_guard_register(int descriptor)
{
    struct stat s;
    int high = -1;

    for (int lowest = FIRST_DESCRIPTOR; high < 0 && lowest > descriptor; lowest /= 2)
        high = fcntl(descriptor, F_DUPFD_CLOEXEC, lowest);
    if (high >= 0) {
        close(descriptor);
        descriptor = high;
    }
    if (!signal_guard_file_status(descriptor, &s))
        return (struct fd_guard){.descriptor = -1};
    return (struct fd_guard){descriptor, s.st_dev, s.st_ino};
}
