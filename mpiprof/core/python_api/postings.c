/* Messages for which recorded calls can wait, when the other rank posted them, and the message for
 * which each call waits.
 *
 * mpiprof/account/message_waits.py describes the rules. It has no MPI and no state. Caller: that
 * module, from any thread. The caller owns all arrays. */
#include "python_api/postings.h"

enum {
    UNKNOWN_NS = -1,
    MAX_PAUSE_NS = 200000, /* longer pauses between calls are intervals of work (interval.h) */
    MAX_PAUSE_RATIO = 4    /* of the pause after a test in vain to the time in the test */
};

/* Returns true if a send may wait for its receiver, even if it is small. A partitioned message is
 * matched and transferred only while its receiver calls the library. */
static bool is_synchronous(const struct postings *p, const struct message *m)
{
    return p->is_synchronous[m->shape] != 0 || p->is_partitioned[m->shape] != 0;
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

/* Sets the states of all messages, and the times of those with a recorded posting call. Without
 * that call, the time is unknown.
 *
 * rendezvous_bytes: smaller messages do not wait for their receiver. */
PUBLIC void postings_begin(const struct message_table *t, const struct postings *p,
                           int64_t rendezvous_bytes)
{
    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];
        const bool is_known = m->partner >= 0;

        p->posted_ns[row] = is_known ? t->messages[m->partner].posted_ns : UNKNOWN_NS;
        if (!can_wait(t, p, m, rendezvous_bytes))
            p->state[row] = MESSAGE_NEVER;
        else
            p->state[row] = is_known ? MESSAGE_KNOWN : MESSAGE_UNKNOWN;
        p->counts[COUNT_PARTNERS] += is_known;
        p->counts[COUNT_SENDS] += p->state[row] == MESSAGE_KNOWN && !message_is_received(m);
    }
}

/* Returns true if a call can wait for a message whose time is known. */
static bool is_timed(const struct postings *p, int64_t row)
{
    return p->state[row] == MESSAGE_KNOWN || p->state[row] == MESSAGE_EAGER;
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

        if (p->state[row] == MESSAGE_KNOWN && !message_is_received(m) && !is_synchronous(p, m) &&
            is_impossible(t, p, row) && m->bytes > eager_bytes)
            eager_bytes = m->bytes;
    }
    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];

        if (p->state[row] != MESSAGE_KNOWN)
            continue;
        if (is_impossible(t, p, row))
            p->state[row] = MESSAGE_NEVER;
        else if (!message_is_received(m) && !is_synchronous(p, m) && m->bytes <= eager_bytes)
            p->state[row] = MESSAGE_EAGER;
    }
}

/* ---- tests in vain
 *
 * A rank that tests a receive again and again waits for the sender, also in the pauses between the
 * tests. A pause in which it computes is longer than the test before it. Pauses are compared with
 * tests, because the records show no counters of short pauses. */

/* Rows of messages of a call: from `first` to before `end`. */
struct rows {
    int64_t first, end;
};

static struct rows rows_from(const struct message_table *t, int64_t first)
{
    struct rows r = {first, first + 1};

    while (r.end < t->count && t->messages[r.end].call == t->messages[first].call)
        r.end++;
    return r;
}

static struct rows rows_before(const struct message_table *t, int64_t end)
{
    struct rows r = {end - 1, end};

    while (r.first > 0 && t->messages[r.first - 1].call == t->messages[end - 1].call)
        r.first--;
    return r;
}

/* Returns true if a call is a test that has ended and has completed none of its messages. The row of
 * a call that posts a message contains the incomplete message, too. */
static bool is_in_vain(const struct message_table *t, const struct postings *p,
                       const struct rows *r)
{
    const int32_t call = t->messages[r->first].call;

    if (!p->is_test[call] || t->exit_ns[call] == 0)
        return false;
    for (int64_t row = r->first; row < r->end; row++)
        if (message_is_complete(&t->messages[row]))
            return false;
    return true;
}

/* Returns the row of a message among those of another call, or NO_MESSAGE. */
static int64_t find_row(const struct message_table *t, const struct rows *r,
                        const struct message *m)
{
    for (int64_t row = r->first; row < r->end; row++) {
        const struct message *const other = &t->messages[row];

        if (other->posted_ns == m->posted_ns && other->shape == m->shape && other->tag == m->tag &&
            other->number == m->number && message_is_received(other) == message_is_received(m))
            return row;
    }
    return NO_MESSAGE;
}

/* Returns true if a rank only waits in the pause between a test in vain and its next call. */
static bool is_polling(const struct message_table *t, int32_t test, int32_t next)
{
    const int64_t pause = t->enter_ns[next] - t->exit_ns[test];

    return t->rank[test] == t->rank[next] && pause < MAX_PAUSE_NS &&
           pause <= MAX_PAUSE_RATIO * (t->exit_ns[test] - t->enter_ns[test]);
}

/* A message that a rank tests in vain: since when, and until when at least it had not arrived. */
struct tested_message {
    int64_t begin_ns, last_ns;
};

/* Returns the tests in vain of a message before one of its calls. rows: of that call. */
static struct tested_message find_poll(const struct message_table *t, const struct postings *p,
                                       struct rows rows, int64_t row)
{
    const struct message *const m = &t->messages[row];
    struct tested_message tested = {t->enter_ns[m->call], INT64_MIN};

    while (rows.first > 0) {
        const struct rows before = rows_before(t, rows.first);
        const int32_t test = t->messages[before.first].call;

        if (!message_is_received(m) || !is_in_vain(t, p, &before) ||
            !is_polling(t, test, t->messages[rows.first].call) ||
            find_row(t, &before, m) == NO_MESSAGE)
            break;
        if (tested.last_ns == INT64_MIN)
            tested.last_ns = t->exit_ns[test];
        tested.begin_ns = t->enter_ns[test];
        rows = before;
    }
    return tested;
}

/* Returns true if the next call of a rank continues its tests in vain, or completes a message that
 * they tested. */
static bool is_continued(const struct message_table *t, const struct postings *p,
                         const struct rows *r)
{
    struct rows next;
    int32_t call;

    if (r->end >= t->count)
        return false;
    next = rows_from(t, r->end);
    call = t->messages[next.first].call;
    if (!is_polling(t, t->messages[r->first].call, call))
        return false;
    for (int64_t row = r->first; row < r->end; row++) {
        const int64_t next_row = find_row(t, &next, &t->messages[row]);

        if (next_row != NO_MESSAGE && message_is_received(&t->messages[row]) &&
            (p->is_test[call] || message_is_complete(&t->messages[next_row])))
            return true;
    }
    return false;
}

/* Returns the message that a rank tests in vain in the last one of several calls, or NO_MESSAGE.
 *
 * The call that completes it is too short to be recorded. Of several messages, the last row counts,
 * because the sender's call is not recorded either. */
static int64_t tested_message(const struct message_table *t, const struct postings *p,
                              const struct rows *r)
{
    if (!is_in_vain(t, p, r) || is_continued(t, p, r))
        return NO_MESSAGE;
    for (int64_t row = r->end - 1; row >= r->first; row--) {
        const struct message *const m = &t->messages[row];
        const int32_t peer = message_peer(t, m);

        if (message_is_received(m) && peer >= 0 && peer < t->ranks && peer != message_rank(t, m))
            return row;
    }
    return NO_MESSAGE;
}

/* ---- waits */

/* Returns the message of a call that was posted last, of those with a known time, or NO_MESSAGE. */
static int64_t last_message(const struct postings *p, const struct rows *r)
{
    int64_t last = NO_MESSAGE;

    for (int64_t row = r->first; row < r->end; row++)
        if (is_timed(p, row) && (last < 0 || p->posted_ns[row] >= p->posted_ns[last]))
            last = row;
    return last;
}

/* Adds the wait of a call for a message, if it is significant. */
static void add_wait(const struct message_table *t, const struct postings *p, const struct waits *w,
                     int64_t row, int64_t begin_ns, int64_t until_ns)
{
    const struct message *const m = &t->messages[row];
    const int64_t wait = *w->count;

    if (until_ns <= begin_ns + p->clock_error_ns)
        return;
    *w->count = wait + 1;
    w->call[wait] = m->call;
    w->message[wait] = row;
    w->rank[wait] = message_rank(t, m);
    w->awaited[wait] = message_peer(t, m);
    w->state[wait] = message_is_received(m) ? WAIT_LATE_SENDER : WAIT_LATE_RECEIVER;
    w->begin_ns[wait] = begin_ns;
    w->until_ns[wait] = until_ns;
    w->wait_ns[wait] = until_ns - begin_ns;
}

/* Finds the wait of a call and of the tests in vain before it. */
static void find_wait(const struct message_table *t, const struct postings *p,
                      const struct waits *w, const struct rows *rows)
{
    const int32_t call = t->messages[rows->first].call;
    int64_t row = last_message(p, rows);
    int64_t until_ns = t->exit_ns[call];
    const int64_t waits = *w->count;
    struct tested_message poll;

    if (row >= 0)
        until_ns = p->posted_ns[row] < until_ns ? p->posted_ns[row] : until_ns;
    else if ((row = tested_message(t, p, rows)) < 0)
        return;
    poll = find_poll(t, p, *rows, row);
    if (!is_timed(p, row) && poll.last_ns == INT64_MIN)
        return; /* a single test in vain: the rank goes on without the message */
    if (until_ns < poll.last_ns)
        until_ns = poll.last_ns;
    /* The rank may have waited for another message during the same tests. */
    if (waits > 0 && w->rank[waits - 1] == t->rank[call] && w->until_ns[waits - 1] > poll.begin_ns)
        poll.begin_ns = w->until_ns[waits - 1];
    add_wait(t, p, w, row, poll.begin_ns, until_ns);
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

/* Finds the calls that wait for messages. */
PUBLIC void postings_find_waits(const struct message_table *t, const struct postings *p,
                                const struct waits *w)
{
    struct rows rows = {0, 0};

    while (rows.end < t->count) {
        rows = rows_from(t, rows.end);
        find_wait(t, p, w, &rows);
    }
    if (p->counts[COUNT_PARTNERS] > 0)
        mark_wrong_order(t, w);
}
