/* Writes that must not kill the program.
 *
 * The kernel sends SIGXFSZ to the writing thread beyond RLIMIT_FSIZE, and SIGPIPE for a pipe
 * without a reader. Both signals are blocked during a write. A signal that the write has raised is
 * consumed before the thread's mask is restored; a signal that was pending before stays. errno is
 * preserved. The thread cannot be cancelled in the middle of a line.
 *
 * Standard error is written only while it is the same file as at program start, because its number
 * may be reused for a file of the program.
 */
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

static const int deadly[] = {SIGXFSZ, SIGPIPE};
static struct stat error_at_start;

void signal_guard_begin(struct signal_guard *g)
{
    sigset_t block;

    g->cancel = lock_disable_cancel();
    sigemptyset(&block);
    for (size_t i = 0; i < 2; i++)
        sigaddset(&block, deadly[i]);
    sigprocmask(SIG_BLOCK, &block, &g->mask); /* on Linux this is the mask of this thread */
    sigpending(&g->pending);
}

void signal_guard_end(const struct signal_guard *g)
{
    const int reason = errno;
    const struct timespec at_once = {0};
    sigset_t now, raised;

    sigpending(&now);
    for (size_t i = 0; i < 2; i++)
        if (sigismember(&now, deadly[i]) == 1 && sigismember(&g->pending, deadly[i]) != 1) {
            sigemptyset(&raised);
            sigaddset(&raised, deadly[i]);
            sigtimedwait(&raised, NULL, &at_once);
        }
    sigprocmask(SIG_SETMASK, &g->mask, NULL);
    lock_restore_cancel(g->cancel);
    errno = reason;
}

/* Call the system, because glibc's fstat has a new name since 2.33. */
bool signal_guard_file_status(int descriptor, struct stat *s)
{
    return descriptor >= 0 && syscall(SYS_fstat, descriptor, s) == 0;
}

__attribute__((constructor)) static void remember_standard_error(void)
{
    if (!signal_guard_file_status(STDERR_FILENO, &error_at_start))
        error_at_start = (struct stat){0};
}

void signal_guard_print(const char *line, size_t length)
{
    struct signal_guard g;
    struct stat s;

    if (error_at_start.st_mode == 0 || !signal_guard_file_status(STDERR_FILENO, &s) ||
        s.st_dev != error_at_start.st_dev || s.st_ino != error_at_start.st_ino)
        return;
    signal_guard_begin(&g);
    for (ssize_t written = 0; length > 0; line += written, length -= (size_t)written) {
        written = write(STDERR_FILENO, line, length);
        if (written < 0 && errno == EINTR)
            written = 0;
        else if (written <= 0)
            break; /* no reader */
    }
    signal_guard_end(&g);
}
