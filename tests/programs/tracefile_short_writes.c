/* Wrappers of write functions: writes are interrupted, or write half of the data.
 *
 * If short_writes_left is above 0, only so many short writes are made; the last one kills its
 * process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int short_writes_left;
static int calls;

/* Half of it is written: others go first. */
static ssize_t shorten(ssize_t written)
{
    if (short_writes_left > 0 && --short_writes_left == 0)
        kill(getpid(), SIGKILL);
    sched_yield();
    return written;
}

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

    const ssize_t written = offset < 0 ? syscall(SYS_writev, descriptor, parts, count)
                                       : syscall(SYS_pwritev, descriptor, parts, count, offset, 0);

    return which == 1 ? shorten(written) : written;
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    return some(descriptor, parts, count, -1);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    return some(descriptor, parts, count, offset);
}
