/* Messages for which recorded calls can wait, when the other rank posted them, and the message for
 * which each call waits.
 *
 * mpiprof/metrics/message_waits.py describes the rules. It has no MPI and no state. Caller: that
 * module, from any thread. The caller owns all arrays. */
#include "python_api/postings.h"

#include "python_api/activities.h"

enum { UNKNOWN_NS = -1 };

static bool is_synchronous(const struct postings *p, const struct message *m)
{
    return p->is_synchronous[m->shape] != 0;
}

/* Returns true if the call of a message can wait for the other rank. */
static bool can_wait(const struct message_table *t, const struct postings *p,
                     const struct message *m, int64_t rendezvous_bytes)
{
    const int32_t peer = message_peer(t, m);

    return message_is_complete(m) &&
           (message_is_received(m) || m->bytes >= rendezvous_bytes || is_synchronous(p, m)) &&
           peer >= 0 && peer < t->ranks && peer != message_rank(t, m) && t->exit_ns[m->call] > 0;
}

/* Sets the states of all messages, and the times of those with a recorded posting call.
 *
 * rendezvous_bytes: smaller messages do not wait for their receiver. */
PUBLIC void postings_begin(const struct message_table *t, const struct postings *p,
                           int64_t rendezvous_bytes)
{
    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];
        const bool is_known = m->partner >= 0;

        p->posted_ns[row] = p->since_ns[row] =
            is_known ? t->messages[m->partner].posted_ns : UNKNOWN_NS;
        if (!can_wait(t, p, m, rendezvous_bytes))
            p->state[row] = MESSAGE_NEVER;
        else
            p->state[row] = is_known ? MESSAGE_KNOWN : MESSAGE_UNKNOWN;
        p->counts[COUNT_UNKNOWN] += p->state[row] == MESSAGE_UNKNOWN;
        p->counts[COUNT_PARTNERS] += is_known;
        p->counts[COUNT_SENDS] += p->state[row] != MESSAGE_NEVER && !message_is_received(m);
    }
}

/* Finds the last pause of a rank up to a time: its end, and when it began (INT64_MIN: unknown).
 *
 * begin, end: the activities of the rank. near: one of them; it is changed. */
static void find_pause(const struct activity *a, int64_t begin, int64_t end, int64_t time_ns,
                       int64_t *near, int64_t *last_ns, int64_t *since_ns)
{
    int64_t before = activity_after(a, begin, end, time_ns, *near) - 1;

    *near = before + 1;
    *last_ns = time_ns;
    if (before >= begin && a[before].end_ns > time_ns) {
        before -= a[before].before;
        *last_ns = a[before].begin_ns;
        before--;
    }
    *since_ns = before >= begin ? a[before].end_ns : INT64_MIN;
}

/* Estimates the times of messages without a recorded posting call.
 *
 * Until now, posted_ns is the end of the work before, or UNKNOWN_NS. first: of each rank, its first
 * activity. near, next: room for each rank: at first the first activities. */
PUBLIC void postings_estimate(const struct message_table *t, const struct postings *p,
                              const struct activity *a, const int64_t *first, int64_t *near,
                              int64_t *next)
{
    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];
        const int64_t worked_ns = p->posted_ns[row];

        if (p->state[row] != MESSAGE_UNKNOWN)
            continue;
        const int32_t peer = message_peer(t, m);
        const int64_t begin = first[peer], end = first[peer + 1];

        find_pause(a, begin, end, t->exit_ns[m->call], &near[peer], &p->posted_ns[row],
                   &p->since_ns[row]);
        if (worked_ns == UNKNOWN_NS)
            continue;
        next[peer] = activity_after(a, begin, end, worked_ns - 1, next[peer]);
        if (next[peer] < end && a[next[peer]].begin_ns < p->posted_ns[row])
            p->posted_ns[row] = a[next[peer]].begin_ns;
        if (worked_ns < p->since_ns[row])
            p->since_ns[row] = worked_ns;
    }
}

/* Returns true if a message was posted after the call that waited for it. */
static bool is_impossible(const struct message_table *t, const struct postings *p, int64_t row)
{
    return p->posted_ns[row] > t->exit_ns[t->messages[row].call] + p->clock_error_ns;
}

/* Excludes messages with impossible times, and finds the sends that need not wait: standard ones that
 * are at most as large as a send that ended before its receive was posted. */
PUBLIC void postings_check(const struct message_table *t, const struct postings *p)
{
    int64_t eager_bytes = -1;

    for (int64_t row = 0; row < t->count && p->counts[COUNT_SENDS] > 0; row++) {
        const struct message *const m = &t->messages[row];

        if (p->state[row] != MESSAGE_NEVER && !message_is_received(m) && !is_synchronous(p, m) &&
            is_impossible(t, p, row) && m->bytes > eager_bytes)
            eager_bytes = m->bytes;
    }
    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];

        if (p->state[row] == MESSAGE_NEVER)
            continue;
        if (is_impossible(t, p, row))
            p->state[row] = MESSAGE_NEVER;
        else if (!message_is_received(m) && !is_synchronous(p, m) && m->bytes <= eager_bytes)
            p->state[row] = MESSAGE_EAGER;
    }
}

/* Returns value / unit, rounded down. */
static int64_t divide_down(int64_t value, int64_t unit)
{
    return value / unit - (value % unit < 0);
}

/* Returns true if a message counts as the last of two messages of a call, of which it is the later
 * row. Times that are equal in units of tie_ns decide nothing; then since_ns decides. */
static bool is_last(const struct postings *p, int64_t row, int64_t other, int64_t tie_ns,
                    bool is_longest_first)
{
    const int64_t time = divide_down(p->posted_ns[row], tie_ns);
    const int64_t latest = divide_down(p->posted_ns[other], tie_ns);

    if (time != latest)
        return time > latest;
    return is_longest_first ? p->since_ns[row] <= p->since_ns[other]
                            : p->since_ns[row] >= p->since_ns[other];
}

/* Returns the message for which a call waits, or NO_MESSAGE.
 *
 * first, next: its messages are from row `first` to before row `next`. */
static int64_t awaited_message(const struct message_table *t, const struct postings *p,
                               int64_t first, int64_t next, int64_t tie_ns, bool is_longest_first)
{
    const int32_t call = t->messages[first].call;
    const int64_t latest_ns = t->enter_ns[call] + p->clock_error_ns;
    int64_t last = NO_MESSAGE;

    for (int64_t row = first; row < next; row++)
        if (p->state[row] != MESSAGE_NEVER &&
            (last < 0 || is_last(p, row, last, tie_ns, is_longest_first)))
            last = row;
    if (last < 0 || p->posted_ns[last] <= latest_ns || t->exit_ns[call] <= latest_ns)
        return NO_MESSAGE;
    return last;
}

/* Adds the wait of a call for a message. */
static void add_wait(const struct message_table *t, const struct postings *p, const struct waits *w,
                     int64_t row)
{
    const struct message *const m = &t->messages[row];
    const int64_t wait = (*w->count)++, enter_ns = t->enter_ns[m->call];
    const int64_t exit_ns = t->exit_ns[m->call];
    const int64_t until_ns = p->posted_ns[row] < exit_ns ? p->posted_ns[row] : exit_ns;

    w->call[wait] = m->call;
    w->message[wait] = row;
    w->rank[wait] = message_rank(t, m);
    w->awaited[wait] = message_peer(t, m);
    w->state[wait] = message_is_received(m) ? WAIT_LATE_SENDER : WAIT_LATE_RECEIVER;
    w->begin_ns[wait] = enter_ns;
    w->until_ns[wait] = until_ns;
    w->wait_ns[wait] = until_ns - enter_ns;
}

/* Marks the waits in receives during which the rank could have received a message that was sent
 * earlier, and that a later call of the rank receives. */
static void mark_wrong_order(const struct message_table *t, const struct waits *w)
{
    int64_t row = t->count - 1, earliest_ns = INT64_MAX;
    int32_t rank = -1;

    for (int64_t wait = *w->count - 1; wait >= 0; wait--) {
        for (; t->messages[row].call > w->call[wait]; row--) {
            const struct message *const m = &t->messages[row];

            if (message_rank(t, m) != rank)
                earliest_ns = INT64_MAX;
            rank = message_rank(t, m);
            if (message_is_received(m) && message_is_complete(m) && m->partner >= 0 &&
                t->messages[m->partner].posted_ns < earliest_ns)
                earliest_ns = t->messages[m->partner].posted_ns;
        }
        if (w->state[wait] == WAIT_LATE_SENDER && rank == w->rank[wait] &&
            earliest_ns < w->until_ns[wait])
            w->state[wait] = WAIT_WRONG_ORDER;
    }
}

/* Finds the calls that wait for messages.
 *
 * longest_first: 1 if the rank that is free for longest counts as the last one, else 0. */
PUBLIC void postings_find_waits(const struct message_table *t, const struct postings *p,
                                int64_t tie_ns, int64_t longest_first, const struct waits *w)
{
    for (int64_t row = 0, next; row < t->count; row = next) {
        int64_t awaited;

        for (next = row + 1; next < t->count && t->messages[next].call == t->messages[row].call;)
            next++;
        awaited = awaited_message(t, p, row, next, tie_ns, longest_first != 0);
        if (awaited >= 0)
            add_wait(t, p, w, awaited);
    }
    if (p->counts[COUNT_PARTNERS] > 0)
        mark_wrong_order(t, w);
}
