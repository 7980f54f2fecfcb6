/* Messages for which recorded calls can wait, when the other rank posted them, and the message for
 * which each call waits.
 *
 * mpiprof/metrics/message_waits.py describes the rules. It has no MPI and no state. Caller: that
 * module, from any thread. The caller owns all arrays. */
#include "python_api/activities.h"
#include "python_api/messages.h"

enum { UNKNOWN_NS = -1 };

/* Returns true if the call of a message can wait for the other rank. */
static bool can_wait(const struct message_table *t, int64_t row, int64_t rendezvous_bytes)
{
    const int64_t call = t->call[row];
    const int32_t peer = message_peer(t, row);

    return t->complete[row] &&
           (t->received[row] || t->bytes[row] >= rendezvous_bytes || t->is_synchronous[call]) &&
           peer >= 0 && peer < t->ranks && peer != t->rank[row] && t->exit_ns[call] > 0;
}

/* Sets the states of all messages, and the times of those with a recorded posting call.
 *
 * rendezvous_bytes: smaller messages do not wait for their receiver. unknown: their number. */
PUBLIC void postings_begin(const struct message_table *t, int64_t rendezvous_bytes,
                           int64_t *unknown)
{
    for (int64_t row = 0; row < t->count; row++) {
        const int64_t partner = t->partner[row];

        t->posted_ns[row] = t->since_ns[row] = partner < 0 ? UNKNOWN_NS : t->own_posted_ns[partner];
        if (!can_wait(t, row, rendezvous_bytes))
            t->state[row] = MESSAGE_NEVER;
        else
            t->state[row] = partner < 0 ? MESSAGE_UNKNOWN : MESSAGE_KNOWN;
        *unknown += t->state[row] == MESSAGE_UNKNOWN;
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
PUBLIC void postings_estimate(const struct message_table *t, const struct activity *a,
                              const int64_t *first, int64_t *near, int64_t *next)
{
    for (int64_t row = 0; row < t->count; row++) {
        const int32_t peer = message_peer(t, row);
        const int64_t worked_ns = t->posted_ns[row];

        if (t->state[row] != MESSAGE_UNKNOWN)
            continue;
        const int64_t begin = first[peer], end = first[peer + 1];

        find_pause(a, begin, end, t->exit_ns[t->call[row]], &near[peer], &t->posted_ns[row],
                   &t->since_ns[row]);
        if (worked_ns == UNKNOWN_NS)
            continue;
        next[peer] = activity_after(a, begin, end, worked_ns - 1, next[peer]);
        if (next[peer] < end && a[next[peer]].begin_ns < t->posted_ns[row])
            t->posted_ns[row] = a[next[peer]].begin_ns;
        if (worked_ns < t->since_ns[row])
            t->since_ns[row] = worked_ns;
    }
}

/* Returns true if a message was posted after the call that waited for it. */
static bool is_impossible(const struct message_table *t, int64_t row)
{
    return t->posted_ns[row] > t->exit_ns[t->call[row]] + t->clock_error_ns;
}

/* Excludes messages with impossible times, and finds the sends that need not wait: those that are
 * at most as large as a send that ended before its receive was posted. */
PUBLIC void postings_check(const struct message_table *t)
{
    int64_t eager_bytes = -1;

    for (int64_t row = 0; row < t->count; row++)
        if (t->state[row] != MESSAGE_NEVER && !t->received[row] && is_impossible(t, row) &&
            t->bytes[row] > eager_bytes)
            eager_bytes = t->bytes[row];
    for (int64_t row = 0; row < t->count; row++) {
        if (t->state[row] == MESSAGE_NEVER)
            continue;
        if (is_impossible(t, row))
            t->state[row] = MESSAGE_NEVER;
        else if (!t->received[row] && t->bytes[row] <= eager_bytes)
            t->state[row] = MESSAGE_EAGER;
    }
}

/* Returns value / unit, rounded down. */
static int64_t divide_down(int64_t value, int64_t unit)
{
    return value / unit - (value % unit < 0);
}

/* Returns true if a message counts as the last of two messages of a call, of which it is the later
 * row. Times that are equal in units of tie_ns decide nothing; then since_ns decides. */
static bool is_last(const struct message_table *t, int64_t row, int64_t other, int64_t tie_ns,
                    bool is_longest_first)
{
    const int64_t time = divide_down(t->posted_ns[row], tie_ns);
    const int64_t latest = divide_down(t->posted_ns[other], tie_ns);

    if (time != latest)
        return time > latest;
    return is_longest_first ? t->since_ns[row] <= t->since_ns[other]
                            : t->since_ns[row] >= t->since_ns[other];
}

/* Writes the rows of the messages for which calls wait to `rows`, and their number to `count`.
 *
 * longest_first: 1 if the rank that is free for longest counts as the last one, else 0. */
PUBLIC void postings_find_waits(const struct message_table *t, int64_t tie_ns,
                                int64_t longest_first, int64_t *rows, int64_t *count)
{
    *count = 0;
    for (int64_t row = 0, next; row < t->count; row = next) {
        const int64_t call = t->call[row];
        int64_t last = -1;

        for (next = row; next < t->count && t->call[next] == call; next++)
            if (t->state[next] != MESSAGE_NEVER &&
                (last < 0 || is_last(t, next, last, tie_ns, longest_first != 0)))
                last = next;
        if (last >= 0 && t->posted_ns[last] > t->enter_ns[call] + t->clock_error_ns &&
            t->exit_ns[call] > t->enter_ns[call] + t->clock_error_ns)
            rows[(*count)++] = last;
    }
}
