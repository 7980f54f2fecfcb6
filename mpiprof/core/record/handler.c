/* The program's error handlers, seen as they are entered.
 *
 * A handler may never return: longjmp and C++ exceptions leave it, and with it the MPI call. So
 * what follows from the error is done before the handler runs: a call that failed its local
 * argument check is taken back, so that the sequence numbers and the history of its communicator
 * are those of the other members; any other call has taken part, counts, and its record is closed.
 * The same two ends await it when the library returns an error, and by the same rule
 * (refusal.c). Only here is the error's class known: which call was left says nothing about it.
 *
 * While a handler runs, the thread is no longer in the call that failed: what the handler calls is
 * counted and recorded like any other call, and so is what follows a handler that has left. When
 * one returns, what has been settled is not settled again, whatever the library returns: MPICH 5.0
 * says MPI_SUCCESS then.
 *
 * A library is given a function of this file in place of the program's, for each function one; it
 * passes on all it gets. Beyond MOST_HANDLERS functions the program's own is used. A callback other
 * than an error handler that leaves (an operation, an attribute's copy function) was run by the
 * operation itself, in which the other members take part too: such a call counts.
 *
 * Under Sessions a handler may be made before anything is recorded, so all are stood in for.
 *
 * Threads: any; the table grows under recorder.lock, its entries never change.
 */
#include "record/handler.h"
#include "base/native.h"
#include "base/recorder.h"
#include "record/call.h"
#include "record/comm.h"
#include "record/stack.h"
#include "record/thread.h"
#include "record/watch.h"

enum { MOST_HANDLERS = 32 };

static MPI_Comm_errhandler_function *_Atomic functions[MOST_HANDLERS];
static int count; /* under recorder.lock */

static bool is_in(const void *address, struct span s)
{
    return (uintptr_t)address >= s.low && (uintptr_t)address < s.high;
}

static void enter(struct thread *before, int error)
{
    struct thread *const t = &self;

    *before = *t;
    if (!atomic_load(&recorder.active) ||
        (t->call == NULL && t->creation == NULL && t->freeing == NULL && t->watch == NULL))
        return;
    /* Else it is the error of a call that a callback made, or what stands here has long left. */
    const struct span caller = stack_caller();

    if (is_in(t->call, caller) && !t->call->running) {
        call_failed(t->call, error);
        t->call = NULL;
        t->caller = NULL;
    }
    if (is_in(t->creation, caller) && t->creation->stamp == t->creation_stamp) {
        comm_made(t->creation, error);
        t->creation = NULL;
    }
    if (is_in(t->freeing, caller) && t->freeing->stamp == t->freeing_stamp) {
        comm_freed(t->freeing, error);
        t->freeing = NULL;
    }
    if (is_in(t->watch, caller) && t->watch->stamp == t->watch_stamp) {
        watch_failed(t->watch);
        t->watch = NULL;
    }
}

static void leave(const struct thread *before)
{
    struct thread *const t = &self;

    t->call = before->call;
    t->creation = before->creation;
    t->creation_stamp = before->creation_stamp;
    t->freeing = before->freeing;
    t->freeing_stamp = before->freeing_stamp;
    t->watch = before->watch;
    t->watch_stamp = before->watch_stamp;
    t->caller = before->caller;
}

/* Open MPI gives two arguments more; what registers hold behind the last one is passed on too. */
static void ask(int which, MPI_Comm *comm, int *error, void *a, void *b, void *c, void *d)
{
    MPI_Comm_errhandler_function *const function = atomic_load(&functions[which]);
    struct thread before;

    enter(&before, *error);
    function(comm, error, a, b, c, d);
    leave(&before);
}

#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define HANDLERS(X) EIGHT(X, 0) EIGHT(X, 01) EIGHT(X, 02) EIGHT(X, 03) /* octal: 0 to 31 */
typedef void stand_in(MPI_Comm *, int *, void *, void *, void *, void *);
#define STAND_IN(n)                                                                                \
    static void stand_in_##n(MPI_Comm *comm, int *error, void *a, void *b, void *c, void *d)       \
    {                                                                                              \
        ask(n, comm, error, a, b, c, d);                                                           \
    }
HANDLERS(STAND_IN)
#undef STAND_IN
#define STAND_IN(n) stand_in_##n,
static stand_in *const stand_ins[MOST_HANDLERS] = {HANDLERS(STAND_IN)};
#undef STAND_IN

/* What the library is given in place of a handler of the program. */
MPI_Comm_errhandler_function *handler_stand_in(MPI_Comm_errhandler_function *function)
{
    int i = 0;

    if (function == NULL)
        return function;
    recorder_lock();
    while (i < count && atomic_load(&functions[i]) != function)
        i++;
    if (i == count && count < MOST_HANDLERS)
        atomic_store(&functions[count++], function);
    const bool found = i < count;

    recorder_unlock();
    return found ? (MPI_Comm_errhandler_function *)(native_function *)stand_ins[i] : function;
}
