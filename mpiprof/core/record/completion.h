/* Completion of recorded requests in Waits and Tests (request_completion.c). */
#pragma once
#include "record/message.h"

enum { FEW_REQUESTS = 8 };
/* Memory for the entries of a call with few requests; not initialised, because that takes time. */
struct request_space {
    struct request *collectives[FEW_REQUESTS];
    struct message_request *messages[FEW_REQUESTS];
};
/* The arguments of a Wait or Test, and the recorded requests among its handles. */
struct request_completion {
    int operation, count;
    const void *handles, *statuses, *address;
    bool fortran, outside;
    struct request_space *space;
    int64_t since;
    struct request **entries; /* collectives, by index; NULL if none is pending */
    struct message_completion {
        struct message_request **entries; /* messages, by index; NULL if none is open */
        const struct call_shape *shape;   /* NULL if the call is not recorded */
        struct record *open;
        int parts;
        uint32_t interval_shape; /* of the call, for the intervals before and after it */
    } messages;
    struct activity outer;
    uint64_t stamp;
};
void request_completion_begin(struct request_completion *w);
void request_completion_all(struct request_completion *w, int error, bool done);
void request_completion_one(struct request_completion *w, int error, bool done, const int *index,
                            int base);
void request_completion_some(struct request_completion *w, int error, const int *count,
                             const int *indices, int base);
void request_completion_seen(struct request_completion *w, int error, bool done);
void request_completion_start(struct request_completion *w, int error);
void request_completion_cancel(struct request_completion *w, int error);
void request_completion_free(struct request_completion *w, int error);
void request_completion_failed(struct request_completion *w);

static inline MPI_Request request_completion_handle(const struct request_completion *w, int i)
{
#ifdef MPIPROF_FORTRAN
    if (w->fortran)
        return request_f2c(((const MPI_Fint *)w->handles)[i]);
#endif
    return ((const MPI_Request *)w->handles)[i];
}

/* ---- messages that a Wait or Test completes (message_completion.c) */

void message_completion_begin(struct request_completion *w);
void message_completion_enter(struct request_completion *w);
void message_completion_index(struct request_completion *w, int i, int status);
void message_completion_indexed(struct request_completion *w, int i, int status);
void message_completion_null(struct request_completion *w);
void message_completion_end(struct request_completion *w, int64_t now);
int message_completion_discard(struct request_completion *w);
