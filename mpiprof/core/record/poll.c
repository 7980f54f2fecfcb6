/* Polls: calls that find nothing, again and again, as one record from the first one to the call
 * that finds something (poll.h).
 *
 *   gap of up to SHORT_NS between two calls: belongs to the poll
 *   up to NOISE_NS: does too, if such gaps are a small part of the poll
 *   from PAUSE_NS on: is a pause of the poll if the thread hardly used its processor
 *   otherwise: is work, which ends the poll
 *
 * The thread's processor time is read at the end of each long gap, and every UPDATE_NS while the
 * thread polls without pauses.
 *
 * While a thread polls, the record is behind the used ones of its window of messages. It is updated
 * every UPDATE_NS. So the record of a killed process is complete, and the header shows when the
 * thread was last seen to poll.
 *
 * Threads: any; the state of a poll is on the heap, and only its thread uses it.
 */
#include "record/poll.h"

#include "base/base.h"
#include "record/interval.h"
#include "record/message_epochs.h"
#include "record/message_log.h"
#include "record/message_shape.h"
#include "tracefile/tracefile.h"

enum {
    SHORT_NS = 2000,
    PAUSE_NS = 20000, /* no sleep is shorter */
    UPDATE_NS = 1000000,
    NOISE_NS = 100000,
    GAP_SHARE = 16,    /* the poll is at least so many times as long as its gaps up to NOISE_NS */
    SLEEP_NS = 200000, /* processor time in a pause: at most so much */
    SLEEP_SHARE = 2,   /* the pause is at least so many times as long */
    STALL_UPDATES = 4, /* for each gap that is a stall; a loop that sleeps has fewer */
    CLOCK_READINGS = 2 /* of which one is rarely interrupted */
};

/* The counter when the recorder began. */
static int64_t start_ns;
static uint64_t start_ticks;
static bool ticks_are_usable;

/* Return the present time, which is between two readings of the ticks. An interrupt between them
 * would shift all times that follow from them, so the shorter of a few attempts is returned. */
static int64_t now_between(uint64_t *before, uint64_t *after)
{
    int64_t now = 0;

    *before = 0;
    *after = UINT64_MAX;
    for (int i = 0; i < CLOCK_READINGS; i++) {
        const uint64_t first = ticks_now();
        const int64_t read_ns = now_ns();
        const uint64_t last = ticks_now();

        if (last - first < *after - *before) {
            now = read_ns;
            *before = first;
            *after = last;
        }
    }
    return now;
}

void poll_start(void)
{
    ticks_are_usable = ticks_are_allowed();
    if (!ticks_are_usable)
        return;
    uint64_t after;

    start_ns = now_between(&start_ticks, &after);
}

/* ---- the poll in the log */

/* Return the live record of a poll, or NULL if the log has no room or no calls. */
static struct record *record_find(void)
{
    return atomic_load_explicit(&message_epoch_level, memory_order_relaxed) > MESSAGES_SUMS &&
                   !record_is_paused()
               ? message_log_records(0)
               : NULL;
}

static struct record *record_write(const struct poll *p, int64_t end_ns)
{
    struct record *const r = record_find();
    const uint32_t calls = p->calls < UINT32_MAX ? (uint32_t)p->calls : UINT32_MAX;

    if (r == NULL)
        return NULL;
    message_log_call(r, p->last->shape, (int)calls);
    r->enter_ns = p->begin_ns;
    r->exit_ns = end_ns;
    record_publish(r, KIND_poll);
    return r;
}

/* Show in the thread's header, and in its log, that it polls. */
static void poll_show(const struct poll *p)
{
    if (self.window == NULL || p->calls < 2)
        return;
    struct chunk_head *const head = &self.window->head;

    head->polled_ns = p->left_ns;
    head->polling = POLL_BETWEEN;
    head->since_ns = p->begin_ns;
    head->function = (uint16_t)(p->last->operation + 1);
    record_write(p, p->left_ns);
}

/* ---- counted calls */

/* Return the ns of a tick, 1 if the counter has jumped. */
static double scale_ns(int64_t now, uint64_t ticks)
{
    const double scale = (double)(now - start_ns) / (double)(ticks - start_ticks);

    return scale > 0.01 && scale < 1000 ? scale : 1;
}

/* Add the counted calls to the sums, and return the present time. The time at which the last call
 * was left is rather too late than too early, because it is the end of a record. */
static int64_t counts_take(struct poll *p)
{
    uint64_t ticks, after;
    const int64_t now = now_between(&ticks, &after);
    const double scale = scale_ns(now, ticks);
    const int64_t since_left = (int64_t)((double)(ticks - p->left) * scale);
    int64_t left_ns = now - since_left;

    if (left_ns > now || left_ns < p->left_ns) /* the counter has jumped */
        left_ns = p->left_ns;
    int64_t room = left_ns - p->left_ns;

    for (struct poll_site *s = p->sites; s < p->sites + POLL_SITES; s++) {
        if (s->calls == 0)
            continue;
        int64_t elapsed = (int64_t)((double)s->ticks * scale);

        elapsed = elapsed < 0 || elapsed > room ? room : elapsed;
        room -= elapsed;
        p->inside_ns += elapsed;
        spent_count(s->spent, elapsed);
        if (!record_is_paused())
            message_shape_add(s->shape, s->calls, elapsed, 0, 0);
        p->calls += s->calls;
        s->calls = 0;
        s->ticks = 0;
    }
    p->left_ns = left_ns;
    p->unsure = after - ticks;
    p->most_gap = (uint64_t)(SHORT_NS / scale);
    p->due = ticks + (uint64_t)(UPDATE_NS / scale);
    return now;
}

/* Return the begin of the last counted call, after counts_take: rather too early than too late. */
static int64_t entered_ns(const struct poll *p)
{
    const double scale = SHORT_NS / (double)p->most_gap;
    const int64_t ticks = (int64_t)(p->entered - p->left - p->unsure);
    const int64_t since_left = (int64_t)((double)ticks * scale);

    return p->left_ns + (since_left > 0 ? since_left : 0);
}

static int64_t processor_now(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Judge the time since the thread was last seen to poll, or since the last reading of its counters,
 * if it is long. */
static void stall_check(const struct poll *p, int64_t seen_ns, int64_t now)
{
    struct interval *const i = self.interval;

    if (i == NULL || i->inside != NULL)
        return;
    const int64_t since_ns = seen_ns > i->last.at_ns ? seen_ns : i->last.at_ns;

    if (now - since_ns >= STALLED_POLL_NS)
        interval_check_poll(i, since_ns, now, p->last->shape->id);
}

/* Add the calls that were counted, and show that the thread still polls. */
void poll_update(struct poll *p)
{
    struct interval *const i = self.interval;
    const int64_t seen_ns = p->read_ns > p->begin_ns ? p->read_ns : p->begin_ns;

    record_check();
    p->read_ns = counts_take(p);
    p->processor_ns = processor_now();
    p->updates++;
    poll_show(p);
    stall_check(p, seen_ns, p->read_ns);
    if (i != NULL && i->inside == NULL && p->left_ns - i->last.at_ns >= UNREAD_NS)
        interval_read_counters(i);
    p->left = ticks_now(); /* this update is no gap */
}

/* Begin to record a call that has returned already. Returns its begin. */
int64_t poll_late_ns(struct poll *p)
{
    p->is_late = false;
    record_check();
    const int64_t now = counts_take(p), begin_ns = entered_ns(p);

    if (self.interval != NULL) /* the gap before it belongs to the poll */
        self.interval->left_ns = INT64_MAX;
    p->spins = false;
    return begin_ns < now ? begin_ns : now;
}

/* ---- begin and end of a poll */

/* End a poll. Returns true if it has become a part of the log. */
static bool poll_finish(struct poll *p, int64_t end_ns)
{
    const int64_t pauses = end_ns - p->begin_ns - p->inside_ns;

    p->spins = false;
    self.polls = false;
    if (pauses > 0 && !record_is_paused()) { /* the rank waits in them */
        spent_count(p->last->spent, pauses);
        message_shape_add(p->last->shape, 0, pauses, 0, 0);
    }
    if (self.window != NULL) {
        self.window->head.polling = POLL_NONE;
        self.window->head.polled_ns = 0;
    }
    struct record *const r = record_write(p, end_ns);

    if (r == NULL)
        return false;
    if (!message_is_logged(p->begin_ns, end_ns)) {
        message_log_clear(0);
        return false;
    }
    message_log_close(r, 0, KIND_poll, p->begin_ns, end_ns);
    return true;
}

/* The time since the last call of a poll becomes an interval. */
static void interval_begin(const struct poll *p)
{
    struct interval *const i = self.interval;

    if (i == NULL || i->inside != NULL)
        return;
    i->left_ns = p->left_ns;
    i->shape = p->last->shape->id;
}

/* End the poll of the calling thread with its last call. */
void poll_close(void)
{
    struct poll *const p = self.poll;
    const bool is_inside = p->spins && self.window->head.polling == POLL_INSIDE;

    record_check();
    if (p->spins)
        counts_take(p);
    if (self.window != NULL)
        self.window->head.function = 0;
    interval_begin(p);
    /* A callback of a counted call may make another one, or an error handler may abandon it. */
    poll_finish(p, is_inside ? entered_ns(p) : p->left_ns);
}

/* End the poll, if there is one, with the begin of a call that has found something. Returns true if
 * there was a poll that is logged. */
bool poll_end(int64_t found_ns)
{
    return self.polls && poll_finish(self.poll, found_ns);
}

/* Return true if the thread hardly used its processor in the gap before a call. If the last reading
 * is recent, the thread was on its processor from then to the gap. Otherwise all processor time
 * since a reading counts, at most. */
static bool gap_is_pause(struct poll *p, int64_t enter_ns)
{
    const struct interval *const i = self.interval;
    const int64_t now = processor_now(), gap = enter_ns - p->left_ns;
    const int64_t polled = p->left_ns - p->read_ns;
    int64_t before = p->processor_ns; /* 0 without a reading */

    if (p->read_ns != 0 && polled <= 2 * UPDATE_NS)
        before += polled;
    else if (i != NULL && i->last.at_ns > p->read_ns)
        before = i->last.processor_ns;
    p->processor_ns = now;
    p->read_ns = enter_ns;
    return now - before <= SLEEP_NS && now - before <= gap / SLEEP_SHARE;
}

/* Return true if the gap before a call belongs to the poll. */
static bool gap_belongs(struct poll *p, int64_t enter_ns)
{
    const int64_t gap = enter_ns - p->left_ns;

    if (gap <= SHORT_NS)
        return true;
    if (gap <= NOISE_NS && p->gaps_ns + gap <= (enter_ns - p->begin_ns) / GAP_SHARE) {
        p->gaps_ns += gap;
        return true;
    }
    return gap > PAUSE_NS && gap_is_pause(p, enter_ns);
}

/* Begin a call that is recorded with its times and may continue the poll of the calling thread.
 * Returns true if it does. Otherwise the poll has ended with its last call. */
bool poll_resume(int64_t enter_ns)
{
    struct poll *const p = self.poll;

    if (p->spins)
        counts_take(p);
    p->gap_ns = enter_ns - p->left_ns;
    if (p->spins && p->gap_ns >= STALLED_POLL_NS && p->updates > STALL_UPDATES * p->stalls++)
        stall_check(p, p->left_ns, enter_ns);
    p->spins = false;
    if (record_is_paused() || !gap_belongs(p, enter_ns)) {
        interval_begin(p);
        poll_finish(p, p->left_ns);
        return false;
    }
    if (self.interval != NULL)
        self.interval->left_ns = INT64_MAX;
    return true;
}

/* Return the entry for the calls with the arguments of this one. */
static struct poll_site *site_set(struct poll *p, const struct poll_call *c)
{
    const void *const caller = poll_caller(c->address);
    struct poll_site *const s = poll_site_at(p, caller, c->rank);

    *s = (struct poll_site){.caller = caller,
                            .operation = c->operation,
                            .rank = c->rank,
                            .object = c->object,
                            .shape = c->shape,
                            .posted_after = c->posted_after,
                            .spent = c->spent};
    return s;
}

/* Add a call in vain, which is in the sums already. Returns true if it continues a poll. */
bool poll_add(const struct poll_call *c)
{
    if (self.poll == NULL)
        self.poll = memory_allocate(sizeof *self.poll);
    struct poll *const p = self.poll;

    if (p == NULL)
        return false;
    if (!self.polls) {
        p->begin_ns = c->enter_ns;
        p->calls = p->gaps_ns = p->inside_ns = 0;
        self.polls = true;
    }
    p->last = site_set(p, c);
    p->calls++;
    p->inside_ns += c->exit_ns - c->enter_ns;
    p->left_ns = c->exit_ns;
    p->spins = p->calls > 1 && p->gap_ns <= PAUSE_NS && c->may_spin && ticks_are_usable &&
               self.window != NULL && !presite_sample_is_on && c->exit_ns - start_ns > UPDATE_NS;
    p->left = ticks_now();
    if (p->spins) {
        counts_take(p);
        p->due = p->left + p->most_gap * (PAUSE_NS / SHORT_NS);
    }
    poll_show(p);
    return p->calls > 1;
}
