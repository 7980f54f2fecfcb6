/* Preloaded into the ranks of an emulated cluster, where many ranks share a few processors. An MPI
 * that finds no message polls again at once, and takes the processor from the rank that it waits
 * for. With this library, after a few empty polls in a row, the next poll blocks until an event, or
 * for MPIPROF_WAIT_US microseconds, because messages through shared memory wake no poll.
 *
 * Compiled at run time by mpi.py. Any thread may enter; each thread has its own count.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

enum { EMPTY_POLLS = 2 };

static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_poll)(struct pollfd *, nfds_t, int);
static struct timespec patience = {0, 500000};
static __thread int empty;

static void __attribute__((constructor)) start(void)
{
    const char *const text = getenv("MPIPROF_WAIT_US");
    const long us = text != NULL ? atol(text) : 0;

    real_epoll_wait = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    real_poll = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    if (us > 0)
        patience = (struct timespec){us / 1000000, us % 1000000 * 1000};
}

/* Return 1 if a poll without timeout that found `found` events should block, else 0. */
static int should_wait(int timeout, int found)
{
    if (timeout != 0)
        return 0;
    empty = found == 0 ? empty + 1 : 0;
    return empty > EMPTY_POLLS;
}

int epoll_wait(int descriptor, struct epoll_event *events, int room, int timeout)
{
    int found = real_epoll_wait(descriptor, events, room, timeout);
    struct pollfd whole = {descriptor, POLLIN, 0};

    if (should_wait(timeout, found) && ppoll(&whole, 1, &patience, NULL) > 0) {
        found = real_epoll_wait(descriptor, events, room, 0);
        empty = 0;
    }
    return found;
}

int poll(struct pollfd *list, nfds_t count, int timeout)
{
    int found = real_poll(list, count, timeout);

    if (count > 0 && should_wait(timeout, found)) {
        found = ppoll(list, count, &patience, NULL);
        empty = found == 0 ? empty : 0;
    }
    return found;
}
