/* Conversion of the events of messages in one OTF2 location: calls, and the messages of each.
 *
 * A region of a point-to-point or completing function is a call on messages, unless it only
 * completes collectives. The events in it are its messages. Python joins requests and completions.
 */
#include "otf2/reading.h"

static bool has_messages(const struct otf2_frame *f)
{
    return f->class == POINT_TO_POINT || f->class == COMPLETING || f->class == RESTARTING;
}

/* Add the call of a region that ends. exit: NEVER if it never ends. */
void reading_messages_end(struct reading *r, const struct otf2_frame *f, uint64_t exit,
                          bool has_collective)
{
    const size_t count = r->message_count - f->first_message;

    if (!has_messages(f) || (has_collective && count == 0) ||
        !reading_state_grow(r, (void **)&r->message_calls, r->message_call_count,
                            &r->message_call_room, sizeof *r->message_calls))
        return;
    struct otf2_call *const c = &r->message_calls[r->message_call_count++];

    reading_state_describe(r, f, c);
    c->exit = exit;
    c->kind = KIND_MESSAGE_CALL;
    c->request = f->first_message;
    c->start = (uint32_t)count;
}

/* Add the message of an event. Without a call around it, it is skipped. */
static int message_add(struct reading *r, const void *attributes, struct otf2_message m)
{
    reading_state_count(r, m.time);
    const struct otf2_frame *const f = reading_state_innermost(r);

    if (f == NULL || !has_messages(f))
        return 0;
    if (!reading_state_grow(r, (void **)&r->messages, r->message_count, &r->message_room,
                            sizeof *r->messages))
        return 1;
    m.region = m.site = UNKNOWN;
    if (r->first_attribute != UNKNOWN && attributes != NULL) {
        struct otf2_call c = {.sent = NEVER, .received = NEVER, .region = UNKNOWN, .site = UNKNOWN};

        c.communicator = c.root = UNKNOWN;
        reading_state_attributes(r, attributes, &c);
        m.given = c.given != 0;
        if (m.given) {
            m.received = (c.given & 1u << ATTRIBUTE_RECEIVED) != 0;
            m.number = c.sequence;
            m.tag = c.start;
            m.posted = c.outside;
            m.flags = c.choice;
            m.communicator = c.communicator;
            m.peer = c.root;
            m.bytes = m.received ? c.received : c.sent;
            m.region = c.region;
            m.site = c.site;
        }
    }
    r->messages[r->message_count++] = m;
    return 0;
}

static int peer_add(struct reading *r, const void *attributes, enum message_event event,
                    uint64_t time, uint32_t peer, uint32_t communicator, uint32_t tag,
                    uint64_t bytes, uint64_t request)
{
    const struct otf2_message m = {.time = time,
                                   .request = request,
                                   .bytes = bytes,
                                   .communicator = communicator,
                                   .peer = peer,
                                   .tag = tag,
                                   .event = (uint8_t)event,
                                   .received = event == EVENT_RECV || event == EVENT_IRECV};

    return message_add(r, attributes, m);
}

static int request_add(struct reading *r, const void *attributes, enum message_event event,
                       uint64_t time, uint64_t request)
{
    const struct otf2_message m = {.time = time,
                                   .request = request,
                                   .bytes = NEVER,
                                   .communicator = UNKNOWN,
                                   .peer = UNKNOWN,
                                   .event = (uint8_t)event,
                                   .received = event == EVENT_IRECV_REQUEST};

    return message_add(r, attributes, m);
}

/* ---- callbacks of OTF2's reader */

DOOR int reading_messages_send(EVENT, uint32_t receiver, uint32_t communicator, uint32_t tag,
                               uint64_t bytes)
{
    return peer_add(user, attributes, EVENT_SEND, time, receiver, communicator, tag, bytes, NEVER);
}

DOOR int reading_messages_isend(EVENT, uint32_t receiver, uint32_t communicator, uint32_t tag,
                                uint64_t bytes, uint64_t request)
{
    return peer_add(user, attributes, EVENT_ISEND, time, receiver, communicator, tag, bytes,
                    request);
}

DOOR int reading_messages_isend_complete(EVENT, uint64_t request)
{
    return request_add(user, attributes, EVENT_ISEND_COMPLETE, time, request);
}

DOOR int reading_messages_irecv_request(EVENT, uint64_t request)
{
    return request_add(user, attributes, EVENT_IRECV_REQUEST, time, request);
}

DOOR int reading_messages_recv(EVENT, uint32_t sender, uint32_t communicator, uint32_t tag,
                               uint64_t bytes)
{
    return peer_add(user, attributes, EVENT_RECV, time, sender, communicator, tag, bytes, NEVER);
}

DOOR int reading_messages_irecv(EVENT, uint32_t sender, uint32_t communicator, uint32_t tag,
                                uint64_t bytes, uint64_t request)
{
    return peer_add(user, attributes, EVENT_IRECV, time, sender, communicator, tag, bytes, request);
}

DOOR int reading_messages_test(EVENT, uint64_t request)
{
    return request_add(user, attributes, EVENT_TEST, time, request);
}

DOOR int reading_messages_parameter(EVENT, UNUSED uint32_t parameter, UNUSED uint64_t value)
{
    struct reading *const r = user;

    if (r->first_attribute == UNKNOWN) { /* of another tool */
        reading_state_count(r, time);
        return 0;
    }
    return request_add(r, attributes, EVENT_PLAIN, time, NEVER);
}
