/* A second thread begins while the first one is in sections of record/single_thread.c. Both count.
 *
 *     single_thread_begins ROUNDS
 *
 * Each round is a process. Prints the number of rounds in which a count was lost, then the number in
 * which the first thread needed no lock at first. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record/record.h"

enum { ALONE = 1, LOST = 2, SECOND_COUNTS = 20000, MOST = 100000000 };

static volatile int64_t count;
static atomic_bool second_begins;

static bool add(void)
{
    const bool single = single_thread_enter();

    if (single)
        count = count + 1;
    else
        __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    single_thread_leave(single);
    return single;
}

static void *second(void *unused)
{
    atomic_store(&second_begins, true);
    single_thread_add();
    for (int i = 0; i < SECOND_COUNTS; i++)
        add();
    return unused;
}

/* Return ALONE and LOST, as far as they apply. */
static int round_run(void)
{
    pthread_t thread;
    int64_t counted = 0, after = 0;

    single_thread_start();
    single_thread_add();
    const bool alone = add();

    counted++;
    pthread_create(&thread, NULL, second, NULL);
    while (after < SECOND_COUNTS && counted < MOST) { /* until the second thread has begun */
        after += atomic_load_explicit(&second_begins, memory_order_relaxed);
        add();
        counted++;
    }
    pthread_join(thread, NULL);
    return (alone ? ALONE : 0) | (count != counted + SECOND_COUNTS ? LOST : 0);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 1;
    int lost = 0, alone = 0;

    for (int i = 0; i < rounds; i++) {
        int status = 0;
        const pid_t child = fork();

        if (child == 0)
            _exit(round_run());
        waitpid(child, &status, 0);
        lost += (WEXITSTATUS(status) & LOST) != 0;
        alone += (WEXITSTATUS(status) & ALONE) != 0;
    }
    printf("%d %d\n", lost, alone);
    return 0;
}
