/* Recording of the signal that ends a rank, so that reports can separate the first failure from
 * ranks that were killed because of it.
 *
 * A handler is installed only where the signal would end the process anyway: over the default
 * action and over Open MPI's handler, which prints a stack trace. The handler writes the signal
 * number and its thread's window to mapped memory. Then it restores the previous action and sends
 * the same signal again with the same siginfo. A handler that the program sets replaces the
 * recorder's. Of SIGTERM it also writes the sender, because launchers end ranks by SIGTERM. SIGBUS
 * has a separate handler (bus_error.c), which also ends in fatal_signal_end.
 *
 * A program that queries a handler receives the action before the recorder's (signal_wrappers.c). A
 * runtime that queries the kernel directly finds the recorder's handler, which ends the process if
 * it is called.
 *
 * Differences from an unrecorded run: if the stack has no space for a handler, the kernel ends the
 * process with the same signal, but the core file names the kernel as its sender, without the
 * address. A process that waits for a file system that does not answer can be killed only by
 * SIGKILL.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/init.h"
#include "record/record.h"
#include "tracefile/tracefile.h"

typedef int (*action_setter)(int, const struct sigaction *, struct sigaction *);

static const int deadly[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTERM};
enum { COUNT = sizeof deadly / sizeof *deadly, MOST_GENERATIONS = 32 };
static struct sigaction previous_actions[COUNT];
static pid_t process;
static action_setter set_action;

/* Return the action before the recorder's handler, or NULL if the recorder never handles it. */
static const struct sigaction *previous_action(int number)
{
    for (int i = 0; i < COUNT; i++)
        if (deadly[i] == number)
            return &previous_actions[i];
    return NULL;
}

/* Append a text to a path without functions that are unsafe in a signal handler. Returns its end. */
static char *path_add(char *path, const char *text)
{
    while (*text != '\0')
        *path++ = *text++;
    *path = '\0';
    return path;
}

static char *path_add_number(char *path, pid_t pid)
{
    char digits[16];
    int count = 0;

    for (; pid > 0; pid /= 10)
        digits[count++] = (char)('0' + pid % 10);
    while (count > 0)
        *path++ = digits[--count];
    *path = '\0';
    return path;
}

/* Return the number of children that a process has not waited for, or 0 if it is unknown. */
static int children_of(pid_t pid)
{
    char path[64], text[128];
    int count = 0;
    ssize_t length;

    char *const end =
        path_add_number(path_add(path_add_number(path_add(path, "/proc/"), pid), "/task/"), pid);
    path_add(end, "/children");
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);

    if (descriptor < 0)
        return 0;
    while ((length = read(descriptor, text, sizeof text)) > 0) /* a space follows each number */
        for (ssize_t i = 0; i < length; i++)
            count += text[i] == ' ';
    close(descriptor);
    return count;
}

/* Return the parent of a process, or 0 if it is unknown. */
static pid_t parent_of(pid_t pid)
{
    char path[40], text[128];

    path_add(path_add_number(path_add(path, "/proc/"), pid), "/stat");
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = descriptor >= 0 ? read(descriptor, text, sizeof text - 1) : 0;
    pid_t parent = 0;

    if (descriptor >= 0)
        close(descriptor);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *const name_end = strrchr(text, ')'); /* then a space, the state, a space */

    for (const char *p = name_end != NULL && strlen(name_end) > 4 ? name_end + 4 : "";
         *p >= '0' && *p <= '9'; p++)
        parent = parent * 10 + (*p - '0');
    return parent;
}

/* Return the sender of a signal as the log has it (event.h). The launcher that ends a job is the
 * nearest ancestor that sends signals. */
static int sender_of(const siginfo_t *info)
{
    if (info == NULL || info->si_code > 0)
        return SENDER_UNKNOWN;
    if (info->si_code == SI_TIMER || info->si_pid == process)
        return SENDER_ITSELF;
    if (info->si_pid <= 0) /* outside this process's namespace */
        return SENDER_UNKNOWN;
    pid_t ancestor = getppid();

    for (int sender = SENDER_PARENT; ancestor > 1 && sender < MOST_GENERATIONS; sender++) {
        if (ancestor == info->si_pid)
            return sender;
        ancestor = parent_of(ancestor);
    }
    return SENDER_ELSEWHERE;
}

/* Record a signal and end the process through the action `otherwise`. info is the signal's siginfo,
 * or NULL if the action received none. The signal is delivered when the calling handler returns. */
void fatal_signal_end(int number, siginfo_t *info, const struct sigaction *otherwise)
{
    const int kept = errno;

    if (getpid() == process) { /* not in a forked child, which shares the mapped memory */
        const int sender = number == SIGTERM ? sender_of(info) : SENDER_UNKNOWN;

        record_signal(number, sender);
        if (number == SIGABRT)
            cxx_exception_write();
        if (sender >= SENDER_PARENT && sender < SENDER_ELSEWHERE)
            file_note_signal(now_ns(), children_of(info->si_pid));
    }
    set_action(number, otherwise, NULL);
    if (info == NULL ||
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info) != 0)
        raise(number);
    errno = kept;
}

static void signal_handle(int number, siginfo_t *info, void *context)
{
    static const struct sigaction by_default = {.sa_handler = SIG_DFL};
    const struct sigaction *const found = previous_action(number);
    const int kept = errno;
    struct sigaction now = {0};

    (void)context;
    set_action(number, NULL, &now);
    /* Without SA_SIGINFO the kernel passes no siginfo. */
    fatal_signal_end(number, (now.sa_flags & SA_SIGINFO) != 0 ? info : NULL,
                     found != NULL ? found : &by_default);
    errno = kept;
}

static bool is_ours(const struct sigaction *a)
{
    return (uintptr_t)a->sa_sigaction == (uintptr_t)signal_handle; /* signal() drops the flags */
}

/* Replace the recorder's handler in `a` by the previous action. Returns false if `a` is another
 * handler. */
bool fatal_signal_restore(int number, struct sigaction *a)
{
    const struct sigaction *const found = previous_action(number);

    if (found == NULL || !is_ours(a))
        return false;
    *a = *found;
    return true;
}

/* Call the C library's sigaction. */
int fatal_signal_action(int number, const struct sigaction *new, struct sigaction *old)
{
    if (set_action == NULL)
        set_action = (action_setter)(uintptr_t)dlsym(RTLD_NEXT, "sigaction");
    if (set_action != NULL)
        return set_action(number, new, old);
    errno = ENOSYS;
    return -1;
}

/* Look up sigaction at load time, because dlsym is unsafe in a signal handler. */
__attribute__((constructor)) static void dying_find(void)
{
    fatal_signal_action(SIGTERM, NULL, NULL);
}

/* Return true if a signal with this action ends the process. */
bool fatal_signal_is_deadly(const struct sigaction *a)
{
    Dl_info where = {0};

    if (a->sa_handler == SIG_DFL || (a->sa_flags & SA_SIGINFO) == 0)
        return a->sa_handler == SIG_DFL;
    return dladdr((const void *)(uintptr_t)a->sa_sigaction, &where) != 0 &&
           where.dli_fname != NULL && strstr(where.dli_fname, "libopen-pal") != NULL;
}

/* Replace an action. A handler that another thread sets meanwhile stays. */
static void action_replace(int number, const struct sigaction *from, const struct sigaction *to)
{
    struct sigaction was = *from;

    if (fatal_signal_action(number, to, &was) == 0 && was.sa_sigaction != from->sa_sigaction)
        fatal_signal_action(number, &was, NULL);
}

void fatal_signal_install(void)
{
    struct sigaction mine = {.sa_sigaction = signal_handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    process = getpid();
    cxx_exception_find();
    sigemptyset(&mine.sa_mask);
    for (int i = 0; i < COUNT; i++)
        if (fatal_signal_action(deadly[i], NULL, &previous_actions[i]) == 0 &&
            fatal_signal_is_deadly(&previous_actions[i]))
            action_replace(deadly[i], &previous_actions[i], &mine);
}

void fatal_signal_uninstall(void)
{
    struct sigaction now;

    for (int i = 0; i < COUNT; i++)
        if (fatal_signal_action(deadly[i], NULL, &now) == 0 && is_ours(&now))
            action_replace(deadly[i], &now, &previous_actions[i]);
}
