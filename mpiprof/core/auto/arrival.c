/* In-situ statistics: how all members of a communicator arrived at the instances of a key.
 *
 *      instances   |<-- window w -->|<-- gap, window w+1 -->|<-- gap, window w+2 ...
 *      w is noted   . . . . . . . .
 *      reduced                      |moments |              |
 *                                            |deviations    |
 *      results of w                                         ^ here, on all members
 *
 * Each member keeps its own arrivals and exits of a window. At the window's end it starts a
 * nonblocking reduction on the private communicator; half a window later that of the deviations
 * from what came out follows; one window later all members have the same integers. Nobody waits
 * unless it is a whole window ahead of another. (Taken two instances after the window's end, the
 * results made members that leave an all-to-all first wait 2 to 24 ms for the last.) All points are
 * counted in instances, which all members count alike. Times are those of the first node's clock
 * (clock.c), since a common origin. No sum can leave its 64 bits, however many members and however
 * long they run: what a member adds to one is at most LONGEST by their number, and the sum of the
 * arrivals, which wraps around, is only used as the distance from the first one.
 *
 * Waits and scores are those of mpiprof/analysis (waits.py, score.py), in whole ns; of the
 * neighbours of a neighbourhood collective nothing is known here.
 *
 * Belongs to its communicator, on which no two threads call at once.
 */
#include "auto/arrival.h"
#include "auto/pairs.h"
#include "base/common.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "machine/clock.h"

/* The pairs of each instance, in the first reduction and in the second; and those of all together
 * that follow in the first. */
enum { ARRIVAL, ELAPSED, ROOT, DEVIATION = 0, SCORE, WAIT, EACH };
enum { MORE = MOST_LIST + EXTRAS };

static const int64_t nobody = INT64_MIN; /* of a group: came last */

/* ---- memory */

void arrivals_free(struct arrivals *w)
{
    if (w == NULL)
        return;
    memory_free(w->now);
    memory_free(w->before);
    memory_free(w->results);
    memory_free(w->mine);
    memory_free(w->all);
    memory_free(w->scanned);
    memory_free(w);
}

/* The memory itself where there is no more: then `had` becomes false. */
static void *resized(void *memory, size_t before, size_t bytes, bool *had)
{
    void *const made = memory_resize(memory, before, bytes);

    *had &= made != NULL;
    return made != NULL ? made : memory;
}

/* For so many instances: some kilobytes. False: not even the reserve has them. */
static bool make_room(struct arrivals *w, int room)
{
    const size_t o = (size_t)w->room, n = (size_t)room;
    const size_t old_pairs = o > 0 ? o * EACH + MORE : 0, pairs = n * EACH + MORE;
    bool had = true;

    if (room <= w->room)
        return true;
    w->now = resized(w->now, o * sizeof *w->now, n * sizeof *w->now, &had);
    w->before = resized(w->before, o * sizeof *w->before, n * sizeof *w->before, &had);
    w->results = resized(w->results, o * sizeof *w->results, n * sizeof *w->results, &had);
    w->mine = resized(w->mine, old_pairs * sizeof *w->mine, pairs * sizeof *w->mine, &had);
    w->all = resized(w->all, old_pairs * sizeof *w->all, pairs * sizeof *w->all, &had);
    if (w->semantics == SCANS)
        w->scanned =
            resized(w->scanned, o * EACH * sizeof *w->scanned, n * EACH * sizeof *w->scanned, &had);
    if (had)
        w->room = room;
    return had;
}

struct arrivals *arrivals_make(enum semantics semantics, const struct membership *own, int length)
{
    struct arrivals *const w = memory_get(sizeof *w);

    if (w == NULL)
        return NULL;
    *w = (struct arrivals){.semantics = semantics,
                           .own = *own,
                           .length = length,
                           .next_length = length,
                           .requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};
    if (make_room(w, length))
        return w;
    arrivals_free(w);
    return NULL;
}

/* ---- a window */

/* Of one instance; between windows it is only counted. */
void arrivals_note(struct arrivals *w, const struct moment *m)
{
    if (w->position >= 0 && w->position < w->length && w->position < w->room) {
        w->now[w->position] = *m;
        w->now[w->position].arrival = clock_common(m->arrival);
        w->now[w->position].exit = clock_common(m->exit);
    }
    w->position++;
}

bool arrivals_full(const struct arrivals *w)
{
    return w->position >= w->length;
}

/* Of the window that begins next; no reduction is under way. */
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

static void finish(struct arrivals *w)
{
    for (int i = 0; i < 2; i++)
        if (w->requests[i] != MPI_REQUEST_NULL)
            pmpi.Wait(&w->requests[i], MPI_STATUS_IGNORE);
}

/* What this member may add to a sum over all: 2.5 hours where there are a million of them. */
static int64_t share_of(const struct arrivals *w, int64_t value)
{
    const int64_t most = INT64_MAX / w->own.members;

    return value > most ? most : value < -most ? -most : value;
}

/* Arrivals, by group, times inside and the root's arrival of the window that has just ended. */
static void start_first(struct arrivals *w, MPI_Comm comm)
{
    struct pair *const more = w->mine + EACH * w->count;

    for (int i = 0; i < w->count; i++) {
        const struct moment *const m = &w->before[i];
        struct pair *const p = w->mine + EACH * i;

        p[ARRIVAL] = (struct pair){m->arrival, w->own.second ? nobody : m->arrival};
        p[ELAPSED] = (struct pair){share_of(w, m->exit - m->arrival), -m->arrival};
        p[ROOT] = (struct pair){w->own.root ? m->arrival : 0, w->own.second ? m->arrival : nobody};
    }
    for (int i = 0; i < MOST_LIST; i++)
        more[i] = (struct pair){share_of(w, w->predicted[i]), w->late ? 0 : w->predicted[i]};
    for (int i = 0; i < EXTRAS; i++)
        more[MOST_LIST + i] = (struct pair){0, w->extras[i]};
    pairs_reduce(w->mine, w->all, EACH * w->count + MORE, comm, &w->requests[0]);
    if (w->scanned != NULL)
        pairs_scan(w->mine, w->scanned, EACH * w->count, comm, &w->requests[1]);
    w->stage = 1;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The earliest that this member may leave instance i, whatever the algorithm. */
static int64_t earliest_exit(const struct arrivals *w, int i)
{
    const struct pair *const all = w->all + EACH * i;
    const int64_t arrival = w->before[i].arrival;
    const int64_t first = all[ARRIVAL].most, second = all[ROOT].most; /* the last of each group */
    const int64_t other = w->own.second ? first : second;

    switch (w->semantics) {
    case SYNCHRONISES: return later(arrival, other == nobody ? first : other);
    case FROM_ROOT: return later(arrival, all[ROOT].sum);
    case TO_ROOT: return w->own.root ? first : arrival;
    case SCANS: return w->scanned[EACH * i + ARRIVAL].most;
    default: return arrival;
    }
}

/* From the sum of all arrivals, which may have wrapped around; the same on all members. */
static int64_t mean_arrival(const struct arrivals *w, int64_t sum, int64_t first, int64_t last)
{
    const uint64_t members = (uint64_t)w->own.members;
    const uint64_t beyond = (uint64_t)sum - members * (uint64_t)first; /* of all, together */

    if ((uint64_t)(last - first) > INT64_MAX / members)
        return first + (last - first) / 2;
    return first + (int64_t)(beyond / members);
}

static void take_first(struct arrivals *w)
{
    const struct pair *const more = w->all + EACH * w->count;

    for (int i = 0; i < w->count; i++) {
        const struct pair *const p = w->all + EACH * i;
        const int64_t last = later(p[ARRIVAL].most, p[ROOT].most), first = -p[ELAPSED].most;
        const int64_t mean = mean_arrival(w, p[ARRIVAL].sum, first, last);
        const int64_t elapsed = p[ELAPSED].sum / w->own.members;

        w->results[i] = (struct sample){.first = first,
                                        .last = last,
                                        .worst = last - first,
                                        .elapsed = elapsed,
                                        .after = elapsed - (last - mean),
                                        .candidate = w->before[i].candidate,
                                        .planned = w->before[i].planned};
    }
    for (int i = 0; i < MOST_LIST; i++)
        w->predicted[i] = later(more[i].sum / w->own.members, more[i].most / 2);
    for (int i = 0; i < EXTRAS; i++)
        w->extras[i] = more[MOST_LIST + i].most;
}

/* What depends on the first results: deviations from the mean, scores, waiting, who was last. */
static void start_second(struct arrivals *w, MPI_Comm comm)
{
    finish(w);
    take_first(w);
    for (int i = 0; i < w->count; i++) {
        const struct moment *const m = &w->before[i];
        const struct pair *const all = w->all + EACH * i;
        struct pair *const p = w->mine + EACH * i;
        const int64_t first = w->results[i].first, last = w->results[i].last;
        const int64_t mean = mean_arrival(w, all[ARRIVAL].sum, first, last);
        /* Who left before need not have waited: who has nothing to receive, for one. */
        const int64_t earliest = sooner(earliest_exit(w, i), m->exit);

        p[DEVIATION].sum = share_of(w, m->arrival > mean ? m->arrival - mean : mean - m->arrival);
        p[DEVIATION].most =
            m->arrival == last ? w->own.members - w->own.member : 0; /* lowest of equals */
        p[SCORE] = (struct pair){share_of(w, m->exit - earliest), 0};
        p[WAIT] = (struct pair){share_of(w, earliest - m->arrival), 0};
    }
    pairs_reduce(w->mine, w->all, EACH * w->count, comm, &w->requests[0]);
    w->stage = 2;
}

static void take_second(struct arrivals *w)
{
    finish(w);
    for (int i = 0; i < w->count; i++) {
        const struct pair *const p = w->all + EACH * i;
        struct sample *const s = &w->results[i];

        s->average = p[DEVIATION].sum / w->own.members;
        s->score = p[SCORE].sum / w->own.members;
        s->wait = p[WAIT].sum;
        s->latest = w->own.members - (int)p[DEVIATION].most;
    }
    w->stage = 0;
}

/* At the end of a window: the next one becomes a part of it. False: it would be too long. */
bool arrivals_extend(struct arrivals *w)
{
    const int length = w->length + w->next_length;

    if (w->stage > 0 || w->gap > 0 || length > LONGEST_WINDOW)
        return false;
    make_room(w, length);
    w->length = length;
    return true;
}

/* At the end of a window: what has been noted is reduced, the next one begins. */
void arrivals_begin(struct arrivals *w, MPI_Comm comm)
{
    struct moment *const other = w->before;
    const int64_t begin = now_ns();

    if (w->length > w->room) /* the members leave it when they learn of EXTRA_FAILED elsewhere */
        return;

    w->count = w->position < w->length ? w->position : w->length;
    w->before = w->now;
    w->now = other;
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

/* After each instance. True: the results of the window before this one are there. */
bool arrivals_step(struct arrivals *w, MPI_Comm comm)
{
    const int64_t begin = now_ns();
    const int half = w->cycle > 1 ? w->cycle / 2 : 1;

    w->since++;
    if (w->stage == 1 && w->since >= half)
        start_second(w, comm);
    else if (w->stage == 2 && w->since >= w->cycle)
        take_second(w);
    else
        return false;
    w->cost_ns += now_ns() - begin;
    w->waited_ns += now_ns() - begin;
    return w->stage == 0;
}

/* In MPI_Finalize, one pass over all that the members of all communicators have: what is under way
 * goes one stage on, and where nothing is, a window that has begun ends. All start before any
 * waits. False: `deadline` has passed, and some member does not answer. */
bool arrivals_pass(struct arrivals *const *all, const MPI_Comm *comms, int count, int64_t deadline)
{
    for (int i = 0; i < count; i++)
        while (all[i]->stage > 0 && !arrivals_are_done(all[i]))
            if (now_ns() > deadline)
                return false;
    for (int i = 0; i < count; i++)
        if (all[i]->stage == 1)
            start_second(all[i], comms[i]);
        else if (all[i]->stage == 2)
            take_second(all[i]);
        else if (all[i]->position > 0)
            arrivals_begin(all[i], comms[i]);
    return true;
}
