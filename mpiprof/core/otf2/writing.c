/* Conversion of the calls of one location to OTF2 events, by OTF2's functions, which Python passes
 * as addresses.
 *
 * A call is written as the region of its call site, which contains the region of MPI and in it a
 * record of the collective. The calls are in the order of entry; completions with equal times are
 * one Wait. A call that overlaps with others on one thread (abandoned by longjmp) stays open. Times
 * never decrease: an earlier tick is replaced by the previous one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "otf2/call.h"

typedef int enter_function(void *writer, void *attributes, uint64_t time, uint32_t region);
typedef int begin_function(void *writer, void *attributes, uint64_t time);
typedef int end_function(void *writer, void *attributes, uint64_t time, uint8_t operation,
                         uint32_t communicator, uint32_t root, uint64_t sent, uint64_t received);
typedef int request_function(void *writer, void *attributes, uint64_t time, uint64_t request);
typedef int complete_function(void *writer, void *attributes, uint64_t time, uint8_t operation,
                              uint32_t communicator, uint32_t root, uint64_t sent,
                              uint64_t received, uint64_t request);
typedef int send_function(void *writer, void *attributes, uint64_t time, uint32_t peer,
                          uint32_t communicator, uint32_t tag, uint64_t bytes);
typedef int isend_function(void *writer, void *attributes, uint64_t time, uint32_t peer,
                           uint32_t communicator, uint32_t tag, uint64_t bytes, uint64_t request);
typedef int parameter_function(void *writer, void *attributes, uint64_t time, uint32_t parameter,
                               uint64_t value);
typedef int add_function(void *attributes, uint32_t attribute, uint64_t value);

/* in the order of Python's list (writing_calls) */
struct otf2 {
    enter_function *enter, *leave;
    begin_function *begin;
    end_function *end;
    request_function *request;
    complete_function *complete;
    send_function *send;
    isend_function *isend;
    request_function *isend_complete, *irecv_request;
    send_function *recv;
    isend_function *irecv;
    request_function *test;
    parameter_function *parameter;
    add_function *add;
};

struct writing {
    const struct otf2 *otf2;
    const struct otf2_message *messages;
    void *writer, *attributes;
    uint32_t first_attribute, wait_region;
    uint64_t time, events;
    int failed;
};

static uint64_t later(struct writing *w, uint64_t time)
{
    if (time > w->time)
        w->time = time;
    w->events++;
    return w->time;
}

static void attributes_add(struct writing *w, const uint64_t *values, unsigned given)
{
    for (uint32_t i = 0; i < ATTRIBUTES; i++)
        if ((given & 1u << i) != 0)
            w->failed |= w->otf2->add(w->attributes, w->first_attribute + i, values[i]);
}

static void event_write(struct writing *w, const struct otf2_call *c)
{
    const uint64_t values[ATTRIBUTES] = {c->sequence,     c->start, c->outside, c->choice,
                                         c->communicator, c->root,  c->sent,    c->received,
                                         c->region,       c->site};

    attributes_add(w, values, c->given);
}

static void enter(struct writing *w, const struct otf2_call *c, uint32_t region)
{
    if (c->site != UNKNOWN)
        w->failed |= w->otf2->enter(w->writer, NULL, later(w, c->enter), c->site);
    if (c->given != 0)
        event_write(w, c);
    w->failed |=
        w->otf2->enter(w->writer, c->given != 0 ? w->attributes : NULL, later(w, c->enter), region);
}

static void leave(struct writing *w, const struct otf2_call *c, uint32_t region)
{
    w->failed |= w->otf2->leave(w->writer, NULL, later(w, c->exit), region);
    if (c->site != UNKNOWN)
        w->failed |= w->otf2->leave(w->writer, NULL, later(w, c->exit), c->site);
}

static void blocking(struct writing *w, const struct otf2_call *c)
{
    enter(w, c, c->region);
    w->failed |= w->otf2->begin(w->writer, NULL, later(w, c->enter));
    if (c->exit == NEVER)
        return;
    w->failed |= w->otf2->end(w->writer, NULL, later(w, c->exit), c->operation, c->communicator,
                              c->root, c->sent, c->received);
    leave(w, c, c->region);
}

static void starting(struct writing *w, const struct otf2_call *c)
{
    enter(w, c, c->region);
    w->failed |= w->otf2->request(w->writer, NULL, later(w, c->enter), c->request);
    if (c->exit != NEVER)
        leave(w, c, c->region);
}

static void completion_write(struct writing *w, const struct otf2_call *c)
{
    w->failed |= w->otf2->complete(w->writer, NULL, later(w, c->exit), c->operation,
                                   c->communicator, c->root, c->sent, c->received, c->request);
}

/* Write the completions of one Wait. Returns their number. */
static size_t waiting(struct writing *w, const struct otf2_call *c, size_t count)
{
    size_t n = 0;

    enter(w, c, w->wait_region);
    do {
        completion_write(w, &c[n]);
        n++;
    } while (n < count && c[n].kind == KIND_COMPLETION && c[n].enter == c->enter &&
             c[n].exit == c->exit && c[n].given == 0);
    leave(w, c, w->wait_region);
    return n;
}

/* Write the event of a message. `given` is 0 for the start of a message outside logged calls. */
static void message_write(struct writing *w, const struct otf2_message *m, uint64_t time)
{
    const uint64_t values[ATTRIBUTES] = {m->number, m->tag,   m->posted, m->flags,  m->communicator,
                                         m->peer,   m->bytes, m->bytes,  m->region, m->site};
    const unsigned other = m->received ? ATTRIBUTE_SENT : ATTRIBUTE_RECEIVED;
    void *const list = m->given ? w->attributes : NULL;
    const struct otf2 *const o = w->otf2;
    const uint64_t at = later(w, time);
    int failed = 0;

    if (m->given)
        attributes_add(w, values, ((1u << ATTRIBUTES) - 1) & ~(1u << other));
    switch ((enum message_event)m->event) {
    case EVENT_SEND:
        failed = o->send(w->writer, list, at, m->peer, m->communicator, m->tag, m->bytes);
        break;
    case EVENT_ISEND:
        failed =
            o->isend(w->writer, list, at, m->peer, m->communicator, m->tag, m->bytes, m->request);
        break;
    case EVENT_ISEND_COMPLETE: failed = o->isend_complete(w->writer, list, at, m->request); break;
    case EVENT_IRECV_REQUEST: failed = o->irecv_request(w->writer, list, at, m->request); break;
    case EVENT_RECV:
        failed = o->recv(w->writer, list, at, m->peer, m->communicator, m->tag, m->bytes);
        break;
    case EVENT_IRECV:
        failed =
            o->irecv(w->writer, list, at, m->peer, m->communicator, m->tag, m->bytes, m->request);
        break;
    case EVENT_TEST: failed = o->test(w->writer, list, at, m->request); break;
    default: failed = o->parameter(w->writer, list, at, 0, m->number); break;
    }
    w->failed |= failed;
}

/* Write a call on messages, and the completions of collectives in the same Wait. Returns the number
 * of calls. */
static size_t talking(struct writing *w, const struct otf2_call *c, size_t count)
{
    size_t n = 1;

    enter(w, c, c->region);
    for (uint32_t i = 0; i < c->start; i++) {
        const struct otf2_message *const m = &w->messages[c->request + i];
        const bool is_end =
            m->event == EVENT_ISEND_COMPLETE || m->event == EVENT_RECV || m->event == EVENT_IRECV;

        message_write(w, m, is_end && c->exit != NEVER ? c->exit : c->enter);
    }
    if (c->exit == NEVER)
        return n;
    while (n < count && c[n].kind == KIND_COMPLETION && c[n].enter == c->enter &&
           c[n].exit == c->exit && c[n].given == 0) {
        completion_write(w, &c[n]);
        n++;
    }
    leave(w, c, c->region);
    return n;
}

/* Write calls and update `last_time`. Returns the number of events, or -1 if OTF2 failed. */
DOOR int64_t writing_calls(const void *const *functions, void *writer, void *attributes,
                           uint32_t first_attribute, uint32_t wait_region, uint64_t *last_time,
                           const struct otf2_call *calls, int64_t count,
                           const struct otf2_message *messages)
{
    struct otf2 otf2;
    struct writing w = {.otf2 = &otf2,
                        .messages = messages,
                        .writer = writer,
                        .attributes = attributes,
                        .first_attribute = first_attribute,
                        .wait_region = wait_region,
                        .time = *last_time};

    memcpy(&otf2, functions, sizeof otf2);
    for (size_t i = 0; i < (size_t)count && w.failed == 0;) {
        const struct otf2_call *const c = &calls[i];

        if (c->kind == KIND_COMPLETION) {
            i += waiting(&w, c, (size_t)count - i);
        } else if (c->kind == KIND_MESSAGE_CALL) {
            i += talking(&w, c, (size_t)count - i);
        } else {
            (c->request != NEVER ? starting : blocking)(&w, c);
            i++;
        }
    }
    *last_time = w.time;
    return w.failed == 0 ? (int64_t)w.events : -1;
}
