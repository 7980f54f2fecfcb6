/* A file system under which writes are interrupted, or take half of what they are given. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int calls;

static ssize_t some(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    struct stat s;
    const int regular = fstat(descriptor, &s) == 0 && S_ISREG(s.st_mode); /* no socket of MPI */
    const int which = regular ? __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 3 : 2;
    struct iovec half = parts[0];

    if (which == 0) {
        errno = EINTR;
        return -1;
    }
    while (count > 1 && half.iov_len == 0) {
        half = *++parts;
        count--;
    }
    half.iov_len = (half.iov_len + 1) / 2;
    if (which == 1)
        parts = &half, count = 1;
    if (offset < 0)
        return syscall(SYS_writev, descriptor, parts, count);
    return syscall(SYS_pwritev, descriptor, parts, count, offset, 0);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    return some(descriptor, parts, count, -1);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    return some(descriptor, parts, count, offset);
}
