/* Wrappers of the program's error handlers.
 *
 * A handler may never return: longjmp and C++ exceptions abandon the MPI call. So an error is
 * processed before the handler runs. A call that failed its local argument check is undone, so that
 * its communicator's sequence number and history match the values of the other members. Any other
 * call has taken part, counts, and its record is closed. The same rule (refusal.c) applies when the
 * library returns an error. The error's class is available only here; the abandoned call's name
 * alone does not show it.
 *
 * While a handler runs, the thread is no longer in the failed call. Calls of the handler, or
 * after a handler that left, are counted and recorded like any other call. After a handler returns,
 * the error is not processed again, whatever the library returns: MPICH 5.0 returns MPI_SUCCESS
 * then.
 *
 * The library receives a function of this file instead of the program's handler, one per handler
 * function; all arguments are forwarded. Beyond MOST_HANDLERS functions the program's handler is
 * passed itself. Other callbacks (an operation, an attribute's copy function) run inside the
 * operation, in which the other members take part. So a call that such a callback abandons counts.
 *
 * With Sessions a handler may be created before recording starts, so all handlers are wrapped.
 *
 * Threads: any; the table grows under recorder.lock, and its entries never change.
 */
#include "base/recorder.h"
#include "callsite/callsite.h"
#include "record/call.h"
#include "record/communicator.h"
#include "record/completion.h"

enum { MOST_HANDLERS = 32 };

static MPI_Comm_errhandler_function *_Atomic functions[MOST_HANDLERS];
static int handler_count; /* protected by recorder.lock */

static bool span_contains(const void *address, struct span s)
{
    return (uintptr_t)address >= s.low && (uintptr_t)address < s.high;
}

/* The calls of a thread that a handler interrupts. */
struct interrupted {
    struct call *call;
    struct activity message, creation, freeing, completion;
    const void *fortran_caller;
};

/* End the calls of this thread that have failed. `before` gets the state for after the handler: the
 * ended calls are no longer in it. */
static void handler_enter(struct interrupted *before, int error)
{
    struct thread *const t = &self;

    *before = (struct interrupted){.call = t->call,
                                   .message = t->message,
                                   .creation = t->creation,
                                   .freeing = t->freeing,
                                   .completion = t->completion,
                                   .fortran_caller = t->fortran_caller};
    if (!atomic_load(&recorder.active) ||
        (t->call == NULL && t->message.object == NULL && t->creation.object == NULL &&
         t->freeing.object == NULL && t->completion.object == NULL))
        return;
    /* The entries below apply only if they are in the caller's frames. Otherwise the error belongs
     * to a call of a callback, or the entry's frame was abandoned. */
    const struct span caller = unwind_caller();
    struct message_call *const message = t->message.object;
    struct creation *const creation = t->creation.object;
    struct freeing *const freeing = t->freeing.object;
    struct request_completion *const completion = t->completion.object;

    if (span_contains(t->call, caller) && t->call->state != CALL_SCHEDULED) {
        call_failed(t->call, error);
        t->call = NULL;
        t->fortran_caller = NULL;
    }
    if (span_contains(message, caller) && message->stamp == t->message.stamp) {
        message_failed(message, error);
        before->message = t->message;
        t->message.object = NULL;
    }
    if (span_contains(creation, caller) && creation->stamp == t->creation.stamp) {
        comm_creation_end(creation, error);
        before->creation = t->creation;
        t->creation.object = NULL;
    }
    if (span_contains(freeing, caller) && freeing->stamp == t->freeing.stamp) {
        comm_free_end(freeing, error);
        before->freeing = t->freeing;
        t->freeing.object = NULL;
    }
    if (span_contains(completion, caller) && completion->stamp == t->completion.stamp) {
        request_completion_failed(completion);
        before->completion = t->completion;
        t->completion.object = NULL;
    }
}

static void handler_leave(const struct interrupted *before)
{
    struct thread *const t = &self;

    t->call = before->call;
    t->message = before->message;
    t->creation = before->creation;
    t->freeing = before->freeing;
    t->completion = before->completion;
    t->fortran_caller = before->fortran_caller;
}

/* Open MPI passes two more arguments, so the argument registers behind the last one are forwarded,
 * too. */
static void handler_run(int which, MPI_Comm *comm, int *error, void *a, void *b, void *c, void *d)
{
    MPI_Comm_errhandler_function *const function = atomic_load(&functions[which]);
    struct interrupted before;

    handler_enter(&before, *error);
    function(comm, error, a, b, c, d);
    handler_leave(&before);
}

#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define HANDLERS(X) EIGHT(X, 0) EIGHT(X, 01) EIGHT(X, 02) EIGHT(X, 03) /* octal: 0 to 31 */
typedef void stand_in(MPI_Comm *, int *, void *, void *, void *, void *);
#define STAND_IN(n)                                                                                \
    static void stand_in_##n(MPI_Comm *comm, int *error, void *a, void *b, void *c, void *d)       \
    {                                                                                              \
        handler_run(n, comm, error, a, b, c, d);                                                   \
    }
HANDLERS(STAND_IN)
#undef STAND_IN
#define STAND_IN(n) stand_in_##n,
static stand_in *const stand_ins[MOST_HANDLERS] = {HANDLERS(STAND_IN)};
#undef STAND_IN

/* Return the function that the library receives instead of a handler of the program. */
MPI_Comm_errhandler_function *error_handler_wrapper(MPI_Comm_errhandler_function *function)
{
    int i = 0;

    if (function == NULL)
        return function;
    recorder_lock();
    while (i < handler_count && atomic_load(&functions[i]) != function)
        i++;
    if (i == handler_count && handler_count < MOST_HANDLERS)
        atomic_store(&functions[handler_count++], function);
    const bool found = i < handler_count;

    recorder_unlock();
    return found ? (MPI_Comm_errhandler_function *)(native_function *)stand_ins[i] : function;
}
