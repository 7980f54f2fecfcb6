/* In-situ statistics: how all members of a communicator arrived at the instances of a key.
 *
 *      instances   |<-- window w -->|<-- gap, window w+1 -->|<-- gap, window w+2 ...
 *      w is noted   . . . . . . . .
 *      reductions                   |sums,max|              |
 *                                            |deviations    |
 *      results of w                                         ^ here, on all members
 *
 * Each member keeps its own arrivals and exits of a window. At the window's end it starts
 * nonblocking reductions on the private communicator; half a window later the deviations from what
 * came out follow; one window later all members have the same integers. Nobody waits unless it is
 * a whole window ahead of another. All points are counted in instances, which all members count
 * alike. Times are those of the first node's clock (clock.c), since a common origin, so that sums
 * over 10^5 members fit.
 *
 * Belongs to its communicator, on which no two threads call at once; `dropped` is under
 * recorder.lock: what is under way when a communicator is freed is finished later.
 */
#include <stdlib.h>
#include <string.h>

#include "auto.h"

/* Of each instance, and of all of them together. */
enum { SUMS = 3, MORE_SUMS = MOST_LIST, MAXIMA = 2, MORE_MAXIMA = EXTRAS + MOST_LIST };

/* ---- memory */

static void arrivals_free(struct arrivals *w)
{
    free(w->now);
    free(w->before);
    free(w->results);
    free(w->sums);
    free(w->maxima);
    free(w);
}

static void *resized(void *memory, size_t bytes)
{
    void *const made = realloc(memory, bytes);

    if (made == NULL)
        abort(); /* some kilobytes, and the other members are under way */
    return made;
}

static void make_room(struct arrivals *w, int room)
{
    const size_t n = (size_t)room;

    if (room <= w->room)
        return;
    w->now = resized(w->now, n * sizeof *w->now);
    w->before = resized(w->before, n * sizeof *w->before);
    w->results = resized(w->results, n * sizeof *w->results);
    w->sums = resized(w->sums, (n * SUMS + MORE_SUMS) * 2 * sizeof *w->sums);
    w->maxima = resized(w->maxima, (n * MAXIMA + MORE_MAXIMA) * 2 * sizeof *w->maxima);
    w->room = room;
}

struct arrivals *arrivals_make(enum semantics semantics, int members, int member, bool root,
                               int length)
{
    struct arrivals *const w = resized(NULL, sizeof *w);

    *w = (struct arrivals){.semantics = semantics,
                           .members = members,
                           .member = member,
                           .root = root,
                           .length = length,
                           .next_length = length};
    make_room(w, length);
    return w;
}

/* ---- a window */

/* Of one instance; between windows it is only counted. */
void arrivals_note(struct arrivals *w, const struct moment *m)
{
    if (w->position >= 0 && w->position < w->length) {
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

/* Of the window that begins next; no reductions are under way. */
void arrivals_next(struct arrivals *w, int length, int gap)
{
    make_room(w, length);
    w->next_length = length;
    w->gap = gap;
}

/* ---- reductions */

static void start(struct arrivals *w, MPI_Comm comm, int sums, int maxima)
{
    w->requests[0] = w->requests[1] = MPI_REQUEST_NULL;
    if (pmpi.Iallreduce(w->sums, w->sums + SUMS * w->room + MORE_SUMS, sums, MPI_INT64_T, MPI_SUM,
                        comm, &w->requests[0]) != MPI_SUCCESS)
        w->requests[0] = MPI_REQUEST_NULL;
    if (pmpi.Iallreduce(w->maxima, w->maxima + MAXIMA * w->room + MORE_MAXIMA, maxima, MPI_INT64_T,
                        MPI_MAX, comm, &w->requests[1]) != MPI_SUCCESS)
        w->requests[1] = MPI_REQUEST_NULL;
    w->stage++;
}

static bool is_done(struct arrivals *w)
{
    int done = 1, all = 1;

    for (int i = 0; i < 2; i++) {
        if (w->requests[i] != MPI_REQUEST_NULL)
            pmpi.Test(&w->requests[i], &done, MPI_STATUS_IGNORE);
        all &= done;
    }
    return all != 0;
}

static void finish(struct arrivals *w)
{
    for (int i = 0; i < 2; i++)
        if (w->requests[i] != MPI_REQUEST_NULL)
            pmpi.Wait(&w->requests[i], MPI_STATUS_IGNORE);
}

static const int64_t *sums_of_all(const struct arrivals *w, int which)
{
    return w->sums + SUMS * w->room + MORE_SUMS + which * w->count;
}

static const int64_t *maxima_of_all(const struct arrivals *w, int which)
{
    return w->maxima + MAXIMA * w->room + MORE_MAXIMA + which * w->count;
}

/* Arrivals, exits and the root's arrival of the window that has just ended. */
static void start_first(struct arrivals *w, MPI_Comm comm)
{
    const int n = w->count;

    for (int i = 0; i < n; i++) {
        const struct moment *const m = &w->before[i];

        w->sums[i] = m->arrival;
        w->sums[n + i] = m->exit;
        w->sums[2 * n + i] = w->root ? m->arrival : 0;
        w->maxima[i] = m->arrival;
        w->maxima[n + i] = -m->arrival;
    }
    memcpy(w->sums + SUMS * n, w->predicted, sizeof w->predicted);
    memcpy(w->maxima + MAXIMA * n, w->extras, sizeof w->extras);
    memcpy(w->maxima + MAXIMA * n + EXTRAS, w->predicted, sizeof w->predicted);
    start(w, comm, SUMS * n + MORE_SUMS, MAXIMA * n + MORE_MAXIMA);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The earliest that this member may leave, whatever the algorithm; where it left before (who has
 * nothing to receive need not wait), that was early enough. */
static int64_t earliest_exit(const struct arrivals *w, int64_t arrival, int64_t root, int64_t last)
{
    switch (w->semantics) {
    case SYNCHRONISES: return last;
    case FROM_ROOT: return later(arrival, root);
    case TO_ROOT: return w->root ? last : arrival;
    default: return arrival;
    }
}

static void take_first(struct arrivals *w)
{
    const int64_t *const arrivals = sums_of_all(w, 0), *const exits = sums_of_all(w, 1);

    for (int i = 0; i < w->count; i++) {
        const int64_t last = maxima_of_all(w, 0)[i], first = -maxima_of_all(w, 1)[i];

        w->results[i] = (struct sample){.first = first,
                                        .last = last,
                                        .worst = last - first,
                                        .elapsed = (exits[i] - arrivals[i]) / w->members,
                                        .candidate = w->before[i].candidate,
                                        .planned = w->before[i].planned};
    }
    const int64_t *const most = maxima_of_all(w, MAXIMA);

    memcpy(w->extras, most, sizeof w->extras);
    for (int i = 0; i < MOST_LIST; i++)
        w->predicted[i] = later(sums_of_all(w, SUMS)[i] / w->members, most[EXTRAS + i] / 2);
}

/* What depends on the first results: deviations from the mean, scores, waiting, who was last. */
static void start_second(struct arrivals *w, MPI_Comm comm)
{
    const int n = w->count;

    finish(w);
    take_first(w);
    for (int i = 0; i < n; i++) {
        const struct moment *const m = &w->before[i];
        const int64_t root = sums_of_all(w, 2)[i], last = w->results[i].last;
        const int64_t mean = sums_of_all(w, 0)[i] / w->members;
        const int64_t earliest = sooner(earliest_exit(w, m->arrival, root, last), m->exit);

        w->sums[i] = m->arrival > mean ? m->arrival - mean : mean - m->arrival;
        w->sums[n + i] = m->exit - earliest;
        w->sums[2 * n + i] = earliest - m->arrival;
        w->maxima[i] = m->arrival == last ? w->members - w->member : 0; /* of equals the lowest */
    }
    start(w, comm, SUMS * n, n);
}

static void take_second(struct arrivals *w)
{
    finish(w);
    for (int i = 0; i < w->count; i++) {
        struct sample *const s = &w->results[i];

        s->average = sums_of_all(w, 0)[i] / w->members;
        s->score = sums_of_all(w, 1)[i] / w->members;
        s->wait = sums_of_all(w, 2)[i];
        s->latest = w->members - (int)maxima_of_all(w, 0)[i];
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

/* After each instance. True: the results of the window before the last are there. */
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
        while (all[i]->stage > 0 && !is_done(all[i]))
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

/* ---- communicators that are freed while reductions are under way */

struct dropped {
    struct dropped *next;
    struct arrivals *arrivals; /* NULL: of this communicator nothing is under way */
    MPI_Comm *comm;            /* shared by those of one communicator; freed with the last */
    int *users;
};
static struct dropped *dropped;

/* Takes over what belongs to a communicator that is no longer used; `comm` is freed when all of
 * its reductions are done. Called by all members, alike. */
void arrivals_drop(struct arrivals **all, int count, MPI_Comm comm)
{
    MPI_Comm *const shared = resized(NULL, sizeof *shared);
    int *const users = resized(NULL, sizeof *users);

    *shared = comm;
    *users = 0;
    recorder_lock();
    for (int i = 0; i < count; i++)
        if (all[i]->stage == 0) {
            arrivals_free(all[i]);
        } else {
            struct dropped *const d = resized(NULL, sizeof *d);

            *d = (struct dropped){dropped, all[i], shared, users};
            ++*users;
            dropped = d;
        }
    const int waiting = *users; /* others may finish them from here on */

    recorder_unlock();
    if (waiting > 0)
        return;
    if (comm != MPI_COMM_NULL)
        pmpi.Comm_free(shared);
    free(shared);
    free(users);
}

/* Frees what is done. The last of a communicator frees that: it has no other use. */
void arrivals_release(void)
{
    struct dropped *list, *kept = NULL;

    recorder_lock();
    list = dropped;
    dropped = NULL;
    recorder_unlock();
    while (list != NULL) {
        struct dropped *const d = list;

        list = d->next;
        if (!is_done(d->arrivals)) {
            d->next = kept;
            kept = d;
            continue;
        }
        arrivals_free(d->arrivals);
        if (--*d->users == 0) {
            if (*d->comm != MPI_COMM_NULL)
                pmpi.Comm_free(d->comm);
            free(d->comm);
            free(d->users);
        }
        free(d);
    }
    recorder_lock();
    while (kept != NULL) {
        struct dropped *const d = kept;

        kept = d->next;
        d->next = dropped;
        dropped = d;
    }
    recorder_unlock();
}

bool arrivals_left(void)
{
    return dropped != NULL;
}
