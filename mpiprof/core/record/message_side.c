/* One message of a call: its identity from the time when it is posted to its completion. */
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
    s->numbered = false;
    s->peeked = operation == OP_probe || operation == OP_iprobe;
    s->numbered_late = wildcard || s->peeked || operation == OP_mprobe || operation == OP_improbe;
    /* The two sides of a partitioned message may divide it differently. */
    const bool partitioned = operation == OP_psend_init || operation == OP_precv_init;

    s->peer = (e.tag >= 0 || wildcard) && !partitioned ? entry->peer : NULL;
}

/* Number a message when it is posted, unless only its completion shows which message it is. */
void message_side_post(struct message_side *s, int64_t now)
{
    struct message_part *const p = &s->part;

    p->posted_ns = now;
    p->flags &= PART_WILDCARD;
    if (s->numbered_late || s->peer == NULL || !message_number_next(s->peer, p)) {
        p->flags |= PART_UNSURE;
        return;
    }
    s->numbered = true;
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
    if (s->peeked)
        p->number = message_number_peek(s->peer, p->tag);
    else if (!message_number_next(s->peer, p))
        return;
    /* Another open receive may be the one that matched the earlier message. */
    if (atomic_load(&s->comm->receives.all) == 0 &&
        !atomic_load(&s->comm->receives.order_is_unknown))
        p->flags &= (uint8_t)~PART_UNSURE;
}

/* A failed call has sent and received nothing if the library rejected its arguments. */
void message_side_fail(struct message_side *s, bool refused)
{
    if (s->comm == NULL || !s->numbered)
        return;
    if (refused)
        message_number_return(s->peer, s->part.tag, s->part.received);
    else if (s->part.received)
        atomic_store(&s->comm->receives.order_is_unknown, true);
}
