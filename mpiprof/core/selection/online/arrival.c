/* In-situ statistics of the arrivals of all members at the instances of a key.
 *
 *      instances   |<-- window w -->|<-- gap, window w+1 -->|<-- gap, window w+2 ...
 *      recorded     . . . . . . . .
 *      reduced                      |moments |              |
 *                                            |deviations    |
 *      results of w                                         ^ on all members
 *
 * Each member records its arrivals and exits of a window. At the end of the window it starts a
 * nonblocking reduction on the private communicator. Half a window later it starts a second
 * reduction, of the deviations from the first result. One window later all members have the same
 * integers. A member waits only if it is a whole window ahead of another member. (When results were
 * required two instances after the window's end, members that leave an all-to-all first waited 2 to
 * 24 ms for the last one.)
 *
 * All points in time are counted in instances, which all members count equally. Times are on the
 * first node's clock (timing/clock.c), relative to a common origin.
 *
 * No sum overflows 64 bits, for any number of members and any duration. A member adds at most
 * INT64_MAX / members to a sum. The sum of arrivals may wrap around, but only its distance from the
 * first arrival is used.
 *
 * Waits and scores follow mpiprof/account (wait_states.py), in whole ns.
 *
 * Ownership and threads: the state belongs to a communicator, which MPI lets only one thread use at
 * a time.
 */
#include "selection/online/arrival.h"

#include "base/base.h"
#include "base/pmpi.h"
#include "timing/timing.h"

/* Pairs of each instance in the first and in the second reduction. MORE pairs for the whole window
 * follow in the first reduction. */
enum { ARRIVAL, ELAPSED, ROOT, DEVIATION = 0, SCORE, WAIT, EACH };
enum { MORE = MOST_LIST + EXTRAS };

static const int64_t nobody = INT64_MIN; /* neutral element for the last arrival of a group */

/* ---- memory */

void arrivals_free(struct arrivals *w)
{
    if (w == NULL)
        return;
    memory_free(w->current);
    memory_free(w->finished);
    memory_free(w->results);
    memory_free(w->input);
    memory_free(w->output);
    memory_free(w->scanned);
    memory_free(w);
}

/* Return the resized array. If memory is exhausted, return the old one and set `had` to false. */
static void *array_resize(void *array, size_t before, size_t after, size_t bytes, bool *had)
{
    void *const made = memory_resize(array, before * bytes, after * bytes);

    *had &= made != NULL;
    return made != NULL ? made : array;
}

/* Allocate for `room` instances (some kB). Returns false if the reserve is exhausted too. */
static bool make_room(struct arrivals *w, int room)
{
    const size_t o = (size_t)w->room, n = (size_t)room;
    const size_t old_pairs = o > 0 ? o * EACH + MORE : 0, pairs = n * EACH + MORE;
    bool had = true;

    if (room <= w->room)
        return true;
    w->current = array_resize(w->current, o, n, sizeof *w->current, &had);
    w->finished = array_resize(w->finished, o, n, sizeof *w->finished, &had);
    w->results = array_resize(w->results, o, n, sizeof *w->results, &had);
    w->input = array_resize(w->input, old_pairs, pairs, sizeof *w->input, &had);
    w->output = array_resize(w->output, old_pairs, pairs, sizeof *w->output, &had);
    if (w->wait_rule == WAIT_RANK_FOR_LOWER)
        w->scanned = array_resize(w->scanned, o * EACH, n * EACH, sizeof *w->scanned, &had);
    if (had)
        w->room = room;
    return had;
}

struct arrivals *arrivals_make(enum wait_rule rule, const struct membership *own, int length)
{
    struct arrivals *const w = memory_allocate(sizeof *w);

    if (w == NULL)
        return NULL;
    *w = (struct arrivals){.wait_rule = rule,
                           .member = *own,
                           .length = length,
                           .next_length = length,
                           .requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};
    if (make_room(w, length))
        return w;
    arrivals_free(w);
    return NULL;
}

/* ---- a window */

/* Record one instance; in a gap only count it. */
void arrivals_note(struct arrivals *w, const struct moment *m)
{
    if (w->position >= 0 && w->position < w->length && w->position < w->room) {
        w->current[w->position] = *m;
        w->current[w->position].arrival = clock_to_common(m->arrival);
        w->current[w->position].exit = clock_to_common(m->exit);
    }
    w->position++;
}

/* Set the length and gap of the next window. No reduction may be active. */
void arrivals_next(struct arrivals *w, int length, int gap)
{
    make_room(w, length);
    w->next_length = length;
    w->gap = gap;
}

/* ---- reductions */

bool arrivals_are_done(struct arrivals *w)
{
    int done = 1;

    for (int i = 0; i < 2 && done != 0; i++)
        if (w->requests[i] != MPI_REQUEST_NULL)
            pmpi.Test(&w->requests[i], &done, MPI_STATUS_IGNORE);
    return done != 0;
}

static void requests_wait(struct arrivals *w)
{
    for (int i = 0; i < 2; i++)
        if (w->requests[i] != MPI_REQUEST_NULL)
            pmpi.Wait(&w->requests[i], MPI_STATUS_IGNORE);
}

/* Limit a value so that the sum over all members cannot overflow: 2.5 hours for 10^6 members. */
static int64_t summand_of(const struct arrivals *w, int64_t value)
{
    const int64_t most = INT64_MAX / w->member.members;

    return value > most ? most : value < -most ? -most : value;
}

/* Start the first reduction of the finished window. */
static void start_first(struct arrivals *w, MPI_Comm comm)
{
    struct sum_max *const more = w->input + EACH * w->count;

    for (int i = 0; i < w->count; i++) {
        const struct moment *const m = &w->finished[i];
        struct sum_max *const p = w->input + EACH * i;

        p[ARRIVAL] = (struct sum_max){m->arrival, w->member.second ? nobody : m->arrival};
        p[ELAPSED] = (struct sum_max){summand_of(w, m->exit - m->arrival), -m->arrival};
        p[ROOT] = (struct sum_max){w->member.root ? m->arrival : 0,
                                   w->member.second ? m->arrival : nobody};
    }
    for (int i = 0; i < MOST_LIST; i++)
        more[i] = (struct sum_max){summand_of(w, w->predicted[i]), w->late ? 0 : w->predicted[i]};
    for (int i = 0; i < EXTRAS; i++)
        more[MOST_LIST + i] = (struct sum_max){0, w->extras[i]};
    sum_max_reduce_start(w->input, w->output, EACH * w->count + MORE, false, comm, &w->requests[0]);
    if (w->scanned != NULL)
        sum_max_reduce_start(w->input, w->scanned, EACH * w->count, true, comm, &w->requests[1]);
    w->stage = 1;
}

static int64_t maximum(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Return the earliest time at which any algorithm lets this member leave instance i: the last
 * arrival of awaited_ranks() in mpiprof/facts/operations.py. */
static int64_t earliest_exit(const struct arrivals *w, int i)
{
    const struct sum_max *const all = w->output + EACH * i;
    const int64_t arrival = w->finished[i].arrival;
    /* last arrival of each group */
    const int64_t first = all[ARRIVAL].most, second = all[ROOT].most;
    const int64_t other = w->member.second ? first : second;

    switch (w->wait_rule) {
    case WAIT_ALL_FOR_ALL: return maximum(arrival, other == nobody ? first : other);
    case WAIT_ALL_FOR_ROOT: return maximum(arrival, all[ROOT].sum);
    case WAIT_ROOT_FOR_ALL: return w->member.root ? first : arrival;
    case WAIT_RANK_FOR_LOWER: return w->scanned[EACH * i + ARRIVAL].most;
    case WAIT_RANK_FOR_SOURCES: /* the sources are unknown here */
    case WAIT_UNSPECIFIED: break;
    }
    return arrival;
}

/* Return the mean arrival, which is equal on all members. `sum` may have wrapped around. */
static int64_t mean_arrival(const struct arrivals *w, int64_t sum, int64_t first, int64_t last)
{
    const uint64_t members = (uint64_t)w->member.members;
    const uint64_t beyond = (uint64_t)sum - members * (uint64_t)first;

    if ((uint64_t)(last - first) > INT64_MAX / members)
        return first + (last - first) / 2;
    return first + (int64_t)(beyond / members);
}

static void take_first(struct arrivals *w)
{
    const struct sum_max *const more = w->output + EACH * w->count;

    for (int i = 0; i < w->count; i++) {
        const struct sum_max *const p = w->output + EACH * i;
        const int64_t last = maximum(p[ARRIVAL].most, p[ROOT].most), first = -p[ELAPSED].most;
        const int64_t mean = mean_arrival(w, p[ARRIVAL].sum, first, last);
        const int64_t elapsed = p[ELAPSED].sum / w->member.members;

        w->results[i] = (struct sample){.first = first,
                                        .last = last,
                                        .worst = last - first,
                                        .elapsed = elapsed,
                                        .after = elapsed - (last - mean),
                                        .candidate = w->finished[i].candidate,
                                        .planned = w->finished[i].planned};
    }
    for (int i = 0; i < MOST_LIST; i++)
        w->predicted[i] = maximum(more[i].sum / w->member.members, more[i].most / 2);
    for (int i = 0; i < EXTRAS; i++)
        w->extras[i] = more[MOST_LIST + i].most;
}

/* Start the reduction of all values that depend on the first result. */
static void start_second(struct arrivals *w, MPI_Comm comm)
{
    requests_wait(w);
    take_first(w);
    for (int i = 0; i < w->count; i++) {
        const struct moment *const m = &w->finished[i];
        const struct sum_max *const all = w->output + EACH * i;
        struct sum_max *const p = w->input + EACH * i;
        const int64_t first = w->results[i].first, last = w->results[i].last;
        const int64_t mean = mean_arrival(w, all[ARRIVAL].sum, first, last);
        const int64_t rule_exit = earliest_exit(w, i);
        /* A member that left earlier did not have to wait: it may have had nothing to receive. */
        const int64_t earliest = rule_exit < m->exit ? rule_exit : m->exit;

        p[DEVIATION].sum = summand_of(w, m->arrival > mean ? m->arrival - mean : mean - m->arrival);
        /* on a tie, the lowest rank */
        p[DEVIATION].most = m->arrival == last ? w->member.members - w->member.member : 0;
        p[SCORE] = (struct sum_max){summand_of(w, m->exit - earliest), 0};
        p[WAIT] = (struct sum_max){summand_of(w, earliest - m->arrival), 0};
    }
    sum_max_reduce_start(w->input, w->output, EACH * w->count, false, comm, &w->requests[0]);
    w->stage = 2;
}

static void take_second(struct arrivals *w)
{
    requests_wait(w);
    for (int i = 0; i < w->count; i++) {
        const struct sum_max *const p = w->output + EACH * i;
        struct sample *const s = &w->results[i];

        s->average = p[DEVIATION].sum / w->member.members;
        s->score = p[SCORE].sum / w->member.members;
        s->wait = p[WAIT].sum;
        s->latest = w->member.members - (int)p[DEVIATION].most;
    }
    w->stage = 0;
}

/* Append the next window to the finished one. Returns false if a reduction or a gap prevents this,
 * or the result would be too long. */
bool arrivals_extend(struct arrivals *w)
{
    const int length = w->length + w->next_length;

    if (w->stage > 0 || w->gap > 0 || length > LONGEST_WINDOW)
        return false;
    make_room(w, length);
    w->length = length;
    return true;
}

void arrivals_begin(struct arrivals *w, MPI_Comm comm)
{
    struct moment *const other = w->finished;
    const int64_t begin = now_ns();

    if (w->length > w->room) /* memory was short: EXTRA_FAILED informs the other members */
        return;
    w->count = w->position < w->length ? w->position : w->length;
    w->finished = w->current;
    w->current = other;
    w->extras[EXTRA_COST] = w->cost_ns;
    w->extras[EXTRA_WAITED] = w->waited_ns;
    w->waited_ns = 0;
    start_first(w, comm);
    w->length = w->next_length;
    w->position = -w->gap;
    w->cycle = w->gap + w->length;
    w->since = 0;
    w->cost_ns = now_ns() - begin;
}

/* Wait for the active reduction, and start the next one. Without an active one, end the unfinished
 * window, as in MPI_Finalize. Returns true when the results of a window are complete. */
bool arrivals_advance(struct arrivals *w, MPI_Comm comm)
{
    const int stage = w->stage;

    if (stage == 1)
        start_second(w, comm);
    else if (stage == 2)
        take_second(w);
    else if (w->position > 0)
        arrivals_begin(w, comm);
    return stage == 2;
}

/* Advance the reductions after an instance. Returns true when the previous window's results are
 * complete. */
bool arrivals_step(struct arrivals *w, MPI_Comm comm)
{
    const int64_t begin = now_ns();
    const int half = w->cycle > 1 ? w->cycle / 2 : 1;

    w->since++;
    if (w->stage == 0 || w->since < (w->stage == 1 ? half : w->cycle))
        return false;
    arrivals_advance(w, comm);
    w->cost_ns += now_ns() - begin;
    w->waited_ns += now_ns() - begin;
    return w->stage == 0;
}
