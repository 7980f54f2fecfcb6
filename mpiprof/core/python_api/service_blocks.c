/* Find the blocks of ranks that serve messages from any source (services.h).
 *
 * It has no MPI and no state. Caller: mpiprof/account/replay.py, from any thread. The caller owns
 * all arrays. */
#include "python_api/services.h"

enum { MAX_POSTS = 8, NO_RANK = -1 };

/* Returns the other rank of a message between two ranks. */
static int64_t find_client(const struct service_events *s, int64_t event)
{
    return s->other[event] == NO_EVENT ? NO_RANK : s->rank[s->other[event]];
}

/* Returns the receive from any source whose call begins at an event, or NO_EVENT. If the sender waits
 * for the receive to be posted, the posting precedes the receive. */
static int64_t find_receive(const struct service_events *s, int64_t event, int64_t end)
{
    const int64_t client = find_client(s, event);
    int64_t at = event;

    if (client == NO_RANK)
        return NO_EVENT;
    while (at < end && at < event + MAX_POSTS && is_source(s, at) && find_client(s, at) == client)
        at++;
    if (at == end || !s->is_from_any[at] || find_client(s, at) != client ||
        s->time_ns[event] < entry_time(s, at))
        return NO_EVENT;
    return at;
}

/* Returns true if two receives are of one message, such as Iprobe and Recv. */
static bool is_same_message(const struct service_events *s, int64_t first, int64_t second)
{
    return s->other[first] == s->other[second] ||
           s->time_ns[s->other[first]] == s->time_ns[s->other[second]];
}

/* Returns the end of the block that begins with a receive. */
static int64_t find_end(const struct service_events *s, int64_t receive, int64_t end)
{
    const int64_t client = find_client(s, receive);
    int64_t at = receive + 1;

    while (at < end && find_client(s, at) == client) {
        const int64_t next = find_receive(s, at, end);

        if (next != NO_EVENT && !is_same_message(s, receive, next))
            break;
        at++;
    }
    return at;
}

/* Finds all blocks and sets their number. */
PUBLIC void service_blocks_find(const struct service_events *s, const struct service_blocks *b,
                                int64_t *number)
{
    int64_t blocks = 0;

    for (int64_t rank = 0; rank < s->ranks; rank++) {
        const int64_t end = s->first[rank + 1];
        int64_t stretch = blocks;

        for (int64_t event = s->first[rank]; event < end;) {
            const int64_t receive = find_receive(s, event, end);

            if (receive == NO_EVENT) {
                stretch = blocks;
                event++;
                continue;
            }
            const int64_t message = s->other[receive];
            const double sent_ns = s->time_ns[message];
            const bool is_first = stretch == blocks;

            b->begin[blocks] = event;
            b->end[blocks] = find_end(s, receive, end);
            b->stretch[blocks] = stretch;
            b->entry_ns[blocks] = entry_time(s, event);
            b->arrival_ns[blocks] = !is_first && b->arrival_ns[blocks - 1] > sent_ns
                                        ? b->arrival_ns[blocks - 1]
                                        : sent_ns;
            b->beginning[event] = blocks;
            b->served[message] = blocks;
            event = b->end[blocks++];
            b->stretch_end[stretch] = blocks;
        }
    }
    *number = blocks;
}
