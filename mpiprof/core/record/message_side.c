/* One message of a call: its identity from the time when it is posted to its completion.
 * message_side.h has the functions that each call needs. */
#include "record/message_side.h"

#include "base/base.h"
#include "base/pmpi.h"
#include "record/communicator.h"
#include "record/message_number.h"
#include "record/message_shape.h"

/* Number the next message of a partitioned request, apart from the numbers of other messages. */
void message_side_start_partitioned(struct message_side *s)
{
    enum { REQUEST_FACTOR = 0x1e3779b1, OFFSET = 0x5bd1e995 };

    s->part.number = s->comm_number + OFFSET + s->init_number * REQUEST_FACTOR + s->starts++;
}

/* Change a message that has no tag, or any tag. */
void message_side_begin_without_tag(struct message_side *s)
{
    if (s->part.received && s->envelope.tag == MPI_ANY_TAG && s->envelope.rank != MPI_PROC_NULL) {
        s->part.flags |= PART_WILDCARD;
        s->has_any_tag = s->peer != NULL && !s->numbered_late;
        s->numbered_late = true;
    } else if (!s->numbered_late) {
        s->peer = NULL;
    }
}

/* Note the place of a receive with any tag among the receives of its peer's messages. MPI matches
 * messages of one rank in order, so that a receive gets the message with its number, unless an open
 * receive for any source, or one of another thread, takes that. */
void message_side_post_untagged(struct message_side *s)
{
    const struct open_receives *const r = &s->comm->receives;

    s->order = message_number_add_untagged(s->peer);
    s->is_untagged = true;
    s->is_in_order = s->comm_number == 0 && atomic_load(&r->any_source) == 0 &&
                     !atomic_load(&single_thread_is_over);
}

/* Give a message its number among all messages of its peer. Returns false if that is unknown. Readers
 * identify the message if the peer sends messages of one tag only. */
static bool number_by_order(struct message_side *s)
{
    if (!s->has_any_tag || !s->is_in_order || atomic_load(&s->peer->order_is_unknown) ||
        atomic_load(&s->comm->receives.order_is_unknown))
        return false;
    s->part.number = s->order;
    s->part.flags = (uint8_t)((s->part.flags & ~PART_UNSURE) | PART_IN_ORDER);
    return true;
}

/* Note a receive that has got its number while another one for any source or any tag is open. */
void message_side_count_beside_wildcard(struct message_side *s)
{
    atomic_store_explicit(&s->peer->last_receive,
                          atomic_fetch_add(&s->comm->receives.beside_wildcards, 1) + 1,
                          memory_order_relaxed);
}

/* Number a message that only its completion shows. status: NULL if the program ignores it. */
void message_side_identify(struct message_side *s, const void *status)
{
    struct message_part *const p = &s->part;
    const int *const words = status;
    const int members = s->comm->inter ? s->comm->remote_size : s->comm->size;
    const int rank = status != NULL ? words[STATUS_SOURCE] : -1;

    if (status == NULL && number_by_order(s)) {
        atomic_store(&s->peer->tags_are_unknown, true);
        return;
    }
    if (rank < 0 || rank >= members || words[STATUS_TAG] < 0) { /* ignored or cancelled */
        p->flags |= PART_UNKNOWN;
        atomic_store(&s->comm->receives.order_is_unknown, true);
        return;
    }
    if (s->is_untagged)
        atomic_fetch_sub(&s->peer->untagged, 1);
    s->is_untagged = false;
    p->tag = words[STATUS_TAG];
    p->shape = message_shape_of_peer(s->group, rank);
    s->peer = message_number_peer(s->comm, rank, false);
    if (s->peer == NULL)
        return;
    /* Another receive that was open meanwhile may be the one that matched the earlier message. */
    const bool alone = (int32_t)(s->peer->last_receive - s->posted_after) <= 0 &&
                       atomic_load(&s->comm->receives.wildcards) == 0;

    if (s->peeked)
        p->number =
            message_side_number(s, atomic_load(message_number_counter(s->peer, p->tag, true)),
                                message_number_code(p->tag));
    else
        message_side_count(s, 0);
    if (alone && !atomic_load(&s->comm->receives.order_is_unknown) &&
        !atomic_load(&s->peer->tags_are_unknown))
        p->flags &= (uint8_t)~PART_UNSURE;
    else
        number_by_order(s);
}

/* A failed call has sent and received nothing if the library rejected its arguments. */
void message_side_fail(struct message_side *s, bool refused)
{
    if (s->comm == NULL)
        return;
    if (refused && s->is_untagged)
        atomic_fetch_sub(&s->peer->untagged, 1);
    if (!refused && s->part.received && !s->peeked)
        atomic_store(&s->comm->receives.order_is_unknown, true);
    else if (refused && s->numbered)
        message_number_return(s->peer, s->part.tag, s->part.received);
}
