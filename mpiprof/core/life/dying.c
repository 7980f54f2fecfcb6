/* The signal that ends a rank, noted in its log, so that those who look later know who died of what
 * and who was only killed with it.
 *
 * Only where the signal would end the process anyway: by default, or through Open MPI's own handler,
 * which prints where it was. What stood there before is put back and gets the signal; a handler that
 * the program sets takes the place of ours. The handler writes one number to mapped memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/recorder.h"
#include "life/dying.h"
#include "record/record.h"

static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM};
enum { COUNT = sizeof deadly / sizeof *deadly };
static struct sigaction before[COUNT];
static bool ours[COUNT];
static pid_t process;

static void note(int number, siginfo_t *info, void *context)
{
    const int kept = errno;

    (void)context;
    if (getpid() == process) /* not a child that was forked, which has the same memory */
        record_signal(number);
    for (int i = 0; i < COUNT; i++)
        if (deadly[i] == number)
            sigaction(number, &before[i], NULL);
    if (info == NULL || info->si_code <= 0) /* sent by a process; a fault comes again by itself */
        raise(number);
    errno = kept;
}

static bool is_deadly(const struct sigaction *a)
{
    Dl_info where = {0};

    if ((a->sa_flags & SA_SIGINFO) == 0)
        return a->sa_handler == SIG_DFL;
    return dladdr((const void *)(uintptr_t)a->sa_sigaction, &where) != 0 &&
           where.dli_fname != NULL && strstr(where.dli_fname, "libopen-pal") != NULL;
}

void dying_watch(void)
{
    struct sigaction mine = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    process = getpid();
    sigemptyset(&mine.sa_mask);
    for (int i = 0; i < COUNT; i++)
        ours[i] = sigaction(deadly[i], NULL, &before[i]) == 0 && is_deadly(&before[i]) &&
                  sigaction(deadly[i], &mine, NULL) == 0;
}

void dying_forget(void)
{
    struct sigaction now;

    for (int i = 0; i < COUNT; i++)
        if (ours[i] && sigaction(deadly[i], NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
            now.sa_sigaction == note)
            sigaction(deadly[i], &before[i], NULL);
}
