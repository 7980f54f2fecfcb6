/* One message of a call: its identity from the time when it is posted to its completion. */
#include "base/base.h"
#include "base/pmpi.h"
#include "record/message.h"

/* Find the shape and peer of a message. */
void message_side_begin(struct message_side *s, int operation, struct envelope e, bool received,
                        MPI_Comm comm, const void *address)
{
    s->comm = NULL;
    s->part.shape = NULL;
    if (e.rank == NO_MESSAGE)
        return;
    const struct message_entry *const entry = message_shape_find(operation, e.rank, comm, address);

    if (entry == NULL)
        return;
    const bool wildcard =
        received && (e.rank == MPI_ANY_SOURCE || e.tag == MPI_ANY_TAG) && e.rank != MPI_PROC_NULL;

    s->part = (struct message_part){.shape = entry->shape,
                                    .bytes = -1,
                                    .tag = e.tag,
                                    .received = received,
                                    .flags = wildcard ? PART_WILDCARD : 0};
    s->comm = entry->comm;
    s->group = entry->group;
    s->envelope = e;
    s->numbered = false;
    s->peeked = operation == OP_probe || operation == OP_iprobe;
    s->numbered_late = wildcard || s->peeked || operation == OP_mprobe || operation == OP_improbe;
    /* The two sides of a partitioned message may divide it differently. */
    const bool partitioned = operation == OP_psend_init || operation == OP_precv_init;

    s->peer = (e.tag >= 0 || wildcard) && !partitioned ? entry->peer : NULL;
}

/* Equivalent communicators share their identity in the tables (comm_id.c), so the number of the
 * communicator is a part of the number of its messages. */
static uint32_t number_on_comm(const struct message_side *s, uint32_t number)
{
    const int64_t comm = s->comm->equivalence.number;

    return comm == 0 ? number : number + (uint32_t)hash_mix((uint64_t)comm, 0);
}

/* Number a message. While another receive for any source or any tag is open, it is unknown which of
 * them gets which message of the peer. */
static void number_set(struct message_side *s)
{
    struct message_part *const p = &s->part;

    p->number = number_on_comm(s, message_number_next(s->peer, p));
    s->numbered = true;
    if (p->received && atomic_load_explicit(&s->comm->receives.wildcards, memory_order_relaxed) > 0)
        atomic_store_explicit(&s->peer->last_receive,
                              atomic_fetch_add(&s->comm->receives.beside_wildcards, 1) + 1,
                              memory_order_relaxed);
}

/* Number a message when it is posted, unless only its completion shows which message it is. */
void message_side_post(struct message_side *s, int64_t now)
{
    struct message_part *const p = &s->part;

    p->posted_ns = now;
    p->flags &= PART_WILDCARD;
    s->posted_after =
        atomic_load_explicit(&s->comm->receives.beside_wildcards, memory_order_relaxed);
    if (s->numbered_late || s->peer == NULL) {
        p->flags |= PART_UNSURE;
        return;
    }
    number_set(s);
    if (p->received &&
        (atomic_load_explicit(&s->comm->receives.wildcards, memory_order_relaxed) > 0 ||
         atomic_load_explicit(&s->comm->receives.order_is_unknown, memory_order_relaxed)))
        p->flags |= PART_UNSURE;
}

/* Complete a message. status: NULL if the program ignores it. */
void message_side_complete(struct message_side *s, const void *status)
{
    struct message_part *const p = &s->part;
    const int *const words = status;

    p->flags |= PART_COMPLETE;
    if (!p->received)
        return;
    if (status != NULL)
        p->bytes = status_bytes(status);
    if (!s->numbered_late)
        return;
    const int members = s->comm->inter ? s->comm->remote_size : s->comm->size;
    const int rank = status != NULL ? words[STATUS_SOURCE] : -1;

    if (rank < 0 || rank >= members || words[STATUS_TAG] < 0) { /* ignored or cancelled */
        p->flags |= PART_UNKNOWN;
        atomic_store(&s->comm->receives.order_is_unknown, true);
        return;
    }
    p->tag = words[STATUS_TAG];
    p->shape = message_shape_of_peer(s->group, rank);
    s->peer = message_number_peer(s->comm, rank);
    if (s->peer == NULL)
        return;
    /* Another receive that was open meanwhile may be the one that matched the earlier message. */
    const bool alone = (int32_t)(s->peer->last_receive - s->posted_after) <= 0 &&
                       atomic_load(&s->comm->receives.wildcards) == 0;

    if (s->peeked)
        p->number = number_on_comm(s, message_number_peek(s->peer, p->tag));
    else
        number_set(s);
    if (alone && !atomic_load(&s->comm->receives.order_is_unknown))
        p->flags &= (uint8_t)~PART_UNSURE;
}

/* A failed call has sent and received nothing if the library rejected its arguments. */
void message_side_fail(struct message_side *s, bool refused)
{
    if (s->comm == NULL)
        return;
    if (!refused && s->part.received && !s->peeked)
        atomic_store(&s->comm->receives.order_is_unknown, true);
    else if (refused && s->numbered)
        message_number_return(s->peer, s->part.tag, s->part.received);
}
