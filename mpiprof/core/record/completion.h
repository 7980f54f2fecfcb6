/* Completion of recorded requests in Waits and Tests (request_completion.c). */
#pragma once
#include "base/pmpi.h"
#include "record/call.h"
#include "record/message.h"
#include "record/record.h"

enum { FEW_REQUESTS = 8 };
/* Memory for the entries of a call with few requests; not initialised, because that takes time. */
struct request_space {
    struct request *collectives[FEW_REQUESTS];
    struct message_request *messages[FEW_REQUESTS];
    MPI_Status status; /* in place of a status that the program ignores */
};
/* The arguments of a Wait or Test, and the recorded requests among its handles. */
struct request_completion {
    int operation, count;
    const void *handles, *statuses, *address;
    bool fortran, outside, in_vain; /* in_vain: a Test that has found nothing */
    struct request_space *space;
    int64_t since;
    struct request **entries; /* collectives, by index; NULL if none is pending */
    struct message_completion {
        struct message_request **entries; /* messages, by index; NULL if none is open */
        const struct call_shape *shape;   /* NULL if the call is not recorded */
        const struct call_shape *polled;  /* of a Test in vain, NULL if that is not recorded */
        struct record *open;
        int parts;
        uint32_t interval_shape; /* of the call, for the intervals before and after it */
    } messages;
    struct activity outer;
    uint64_t stamp;
};
void request_completion_begin_active(struct request_completion *w);
void request_completion_all(struct request_completion *w, int error, bool done);
void request_completion_one(struct request_completion *w, int error, bool done, const int *index,
                            int base);
void request_completion_some(struct request_completion *w, int error, const int *count,
                             const int *indices, int base);
void request_completion_seen(struct request_completion *w, int error, bool done, int many,
                             const int *indices, int base);
void request_completion_start(struct request_completion *w, int error);
void request_completion_cancel(struct request_completion *w, int error);
void request_completion_free(struct request_completion *w, int error);
void request_completion_failed(struct request_completion *w);

/* Begin a Wait or Test. The members are set one by one, because clearing the whole takes time. */
static inline void request_completion_begin(struct request_completion *w,
                                            struct request_space *space, int operation, int count,
                                            const void *handles, const void *statuses,
                                            const void *address, bool fortran)
{
    w->operation = operation;
    w->count = count;
    w->handles = handles;
    w->statuses = statuses;
    w->address = address;
    w->fortran = fortran;
    w->space = space;
    w->since = 0;
    w->in_vain = false;
    w->entries = NULL;
    w->messages.entries = NULL;
    w->messages.shape = NULL;
    w->messages.polled = NULL;
    w->messages.open = NULL;
    w->messages.parts = 0;
    w->outside = atomic_load_explicit(&recorder.active, memory_order_relaxed) &&
                 (self.call == NULL || !call_within(w));
    if (w->outside)
        request_completion_begin_active(w);
}

static inline MPI_Request request_completion_handle(const struct request_completion *w, int i)
{
#ifdef MPIPROF_FORTRAN
    if (w->fortran)
        return request_f2c(((const MPI_Fint *)w->handles)[i]);
#endif
    return ((const MPI_Request *)w->handles)[i];
}

/* Return the address for the status of a call that completes one request. If the program ignores
 * the status, the source and the bytes of a message are known from another one. */
static inline void *request_completion_status(struct request_completion *w, void *status,
                                              bool fortran)
{
    if (!w->outside || w->messages.parts == 0 || !status_is_ignored(status, fortran))
        return status;
    w->statuses = &w->space->status;
    return &w->space->status;
}
