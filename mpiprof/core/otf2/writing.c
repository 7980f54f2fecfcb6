/* Conversion of the calls of one location to OTF2 events, by OTF2's functions, which Python passes
 * as addresses.
 *
 * A call is written as the region of its call site, which contains the region of MPI and in it a
 * record of the collective. The calls are in the order of entry; completions with equal times are
 * one Wait. A call that overlaps with others on one thread (abandoned by longjmp) stays open. Times
 * never decrease: an earlier tick is replaced by the previous one.
 */
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
typedef int add_function(void *attributes, uint32_t attribute, uint64_t value);

/* in the order of Python's list (writing_calls) */
struct otf2 {
    enter_function *enter, *leave;
    begin_function *begin;
    end_function *end;
    request_function *request;
    complete_function *complete;
    add_function *add;
};

struct writing {
    const struct otf2 *otf2;
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

static void event_write(struct writing *w, const struct call *c)
{
    const uint64_t values[ATTRIBUTES] = {c->sequence,     c->start, c->outside, c->choice,
                                         c->communicator, c->root,  c->sent,    c->received};

    for (uint32_t i = 0; i < ATTRIBUTES; i++)
        if ((c->given & 1u << i) != 0)
            w->failed |= w->otf2->add(w->attributes, w->first_attribute + i, values[i]);
}

static void enter(struct writing *w, const struct call *c, uint32_t region)
{
    if (c->site != UNKNOWN)
        w->failed |= w->otf2->enter(w->writer, NULL, later(w, c->enter), c->site);
    if (c->given != 0)
        event_write(w, c);
    w->failed |=
        w->otf2->enter(w->writer, c->given != 0 ? w->attributes : NULL, later(w, c->enter), region);
}

static void leave(struct writing *w, const struct call *c, uint32_t region)
{
    w->failed |= w->otf2->leave(w->writer, NULL, later(w, c->exit), region);
    if (c->site != UNKNOWN)
        w->failed |= w->otf2->leave(w->writer, NULL, later(w, c->exit), c->site);
}

static void blocking(struct writing *w, const struct call *c)
{
    enter(w, c, c->region);
    w->failed |= w->otf2->begin(w->writer, NULL, later(w, c->enter));
    if (c->exit == NEVER)
        return;
    w->failed |= w->otf2->end(w->writer, NULL, later(w, c->exit), c->operation, c->communicator,
                              c->root, c->sent, c->received);
    leave(w, c, c->region);
}

static void starting(struct writing *w, const struct call *c)
{
    enter(w, c, c->region);
    w->failed |= w->otf2->request(w->writer, NULL, later(w, c->enter), c->request);
    if (c->exit != NEVER)
        leave(w, c, c->region);
}

/* Write the completions of one Wait. Returns their number. */
static size_t waiting(struct writing *w, const struct call *c, size_t count)
{
    size_t n = 0;

    enter(w, c, w->wait_region);
    do {
        w->failed |=
            w->otf2->complete(w->writer, NULL, later(w, c[n].exit), c[n].operation,
                              c[n].communicator, c[n].root, c[n].sent, c[n].received, c[n].request);
        n++;
    } while (n < count && c[n].kind == KIND_COMPLETION && c[n].enter == c->enter &&
             c[n].exit == c->exit && c[n].given == 0);
    leave(w, c, w->wait_region);
    return n;
}

/* Write calls and update `last_time`. Returns the number of events, or -1 if OTF2 failed. */
DOOR int64_t writing_calls(const void *const *functions, void *writer, void *attributes,
                           uint32_t first_attribute, uint32_t wait_region, uint64_t *last_time,
                           const struct call *calls, int64_t count)
{
    struct otf2 otf2;
    struct writing w = {.otf2 = &otf2,
                        .writer = writer,
                        .attributes = attributes,
                        .first_attribute = first_attribute,
                        .wait_region = wait_region,
                        .time = *last_time};

    memcpy(&otf2, functions, sizeof otf2);
    for (size_t i = 0; i < (size_t)count && w.failed == 0;) {
        const struct call *const c = &calls[i];

        if (c->kind == KIND_COMPLETION) {
            i += waiting(&w, c, (size_t)count - i);
        } else {
            (c->request != NEVER ? starting : blocking)(&w, c);
            i++;
        }
    }
    *last_time = w.time;
    return w.failed == 0 ? (int64_t)w.events : -1;
}
