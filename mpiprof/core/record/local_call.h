/* Calls of one rank without messages: on windows, files and partitions, and those that create or free
 * communicators (local_call.c). */
#pragma once
#include <string.h>

#include "base/mpi_types.h"
#include "base/pmpi.h"
#include "record/message.h"
#include "record/record.h"

/* Content of the field `choice` in records of MPI_Win_lock and MPI_Win_lock_all. */
enum lock_type { LOCK_UNKNOWN, LOCK_EXCLUSIVE, LOCK_SHARED };

void local_call_end(struct message_call *m, int error, const struct message_arguments *a);
void local_call_end_ready(struct message_call *m, int error, MPI_Request request);
void local_call_end_epoch(struct message_call *m, int error);
void local_call_end_test(struct message_call *m, int error, const struct message_arguments *a,
                         bool found);
void local_call_end_group(struct message_call *m, int error, uint64_t window, MPI_Group group);

static const int local_call_one = 1; /* count of operations on one element */

/* Return the operand of an operation, which MPI_NO_OP does not read. */
static inline struct message_buffer local_call_operand(MPI_Op op, struct message_buffer operand)
{
    const char *const name = predefined_reduction(op);

    return name != NULL && strcmp(name, "MPI_NO_OP") == 0 ? (struct message_buffer){0} : operand;
}

/* Return the content of `choice` for an argument that may be wrong. */
static inline enum lock_type local_call_lock_type(int type)
{
    return type == MPI_LOCK_EXCLUSIVE ? LOCK_EXCLUSIVE
           : type == MPI_LOCK_SHARED  ? LOCK_SHARED
                                      : LOCK_UNKNOWN;
}

/* a: its buffers are read at the end only. Those of an object have its handle, and the target as `sent.rank`. */
static inline void local_call_begin(struct message_call *m, int operation, enum spent spent,
                                    const struct message_arguments *a, const void *address)
{
    m->spent = spent;
    m->is_local = true;
    m->choice = a->lock;
    m->epoch = 0;
    m->enter_ns = 0;
    if (atomic_load_explicit(&recorder.active, memory_order_relaxed) &&
        (self.call == NULL || !call_within(m)))
        message_begin_active(m, operation, a, address);
}

/* Begin a call that is recorded by call site only. */
static inline void local_call_begin_alone(struct message_call *m, int operation, enum spent spent,
                                          const void *address)
{
    const struct message_arguments none = {
        .comm = COMM_NONE, .sent = {NO_MESSAGE, 0}, .received = {NO_MESSAGE, 0}};

    local_call_begin(m, operation, spent, &none, address);
}
