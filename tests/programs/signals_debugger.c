/* Starts a program and prints the signal that ends it, as a debugger or a core file would report
 * it.
 *
 *   signals_debugger PROGRAM WORDS...
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    siginfo_t info = {0};
    int status = 0;
    const pid_t child = argc > 1 ? fork() : -1;

    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        const long number = WSTOPSIG(status);

        if (number != SIGTRAP) /* at exec */
            ptrace(PTRACE_GETSIGINFO, child, NULL, &info);
        ptrace(PTRACE_CONT, child, NULL, (void *)(number == SIGTRAP ? 0 : number));
    }
    printf("ended %d by %d: signal %d, code %d", WIFSIGNALED(status),
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), info.si_signo,
           info.si_code);
    /* Addresses that are not the program's own choice differ from run to run. */
    if (info.si_code > 0 && info.si_signo != SIGCHLD && (uintptr_t)info.si_addr < 4096)
        printf(", address %p", info.si_addr);
    else if (info.si_code <= 0)
        printf(", from itself %d, value %d", info.si_pid == child, info.si_value.sival_int);
    printf("\n");
    return 0;
}
