/* Replay in which ranks serve messages from any source in the order of their arrival (services.h).
 *
 * The events of all ranks happen in the order of their new times, because this order determines the
 * message that a server receives next. Without removed work, they happen as recorded: a message
 * counts as arrived when all messages that were served before it had arrived.
 *
 * A block keeps its inner times. The time between two blocks stays in its place, and so does work that
 * is removed there.
 *
 * It has no MPI and no state. Caller: mpiprof/account/replay.py, from any thread. The caller owns
 * all arrays. */
#include "python_api/services.h"

enum { HAPPENS, IS_CHOSEN }; /* kinds of steps; events precede choices at the same time */

struct service_step {
    double time_ns;
    int64_t kind, rank, version;
};
_Static_assert(sizeof(struct service_step) == 32, "as account/replay.STEP");

/* The fields have the names and the order of account/replay.STATE. */
struct service_state {
    double *leads;               /* of each rank */
    int64_t *at, *until;         /* of each rank: its next event, and the end of its block */
    int64_t *stretch, *position; /* of each rank: first block of its stretch, and number of its next
                                  * place for a block */
    int64_t *version;            /* of each rank: number of its last step */
    int64_t *is_choosing;        /* of each rank: true if it waits for a message from any source */
    double *begin_ns;            /* of each rank: new begin of its next block */
    double *ends;                /* lead of each dependence, INFINITY at first */
    int64_t *missing, *waiting;  /* of each dependence: missing sources, and a rank that waits */
    int64_t *next_waiting;       /* of each rank: another rank that waits for the same dependence */
    double *arrivals;            /* new arrival of the message of each block */
    int64_t *queue, *queued;    /* heap of the arrived blocks of each stretch, at its first block */
    struct service_step *steps; /* heap with room for the blocks and twice the ranks */
    int64_t *count;             /* of steps, and of events that have happened */
};

struct replay {
    const struct service_events *s;
    const struct service_blocks *b;
    struct service_state *state;
    const double *removed;
};

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/* ---- heap of steps */

static bool step_precedes(const struct service_step *a, const struct service_step *b)
{
    return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->kind < b->kind);
}

/* Adds the next step of a rank, which replaces an earlier one. */
static void step_add(const struct replay *r, double time_ns, int64_t kind, int64_t rank)
{
    struct service_step *const steps = r->state->steps;
    int64_t at = r->state->count[0]++;

    steps[at] = (struct service_step){time_ns, kind, rank, ++r->state->version[rank]};
    while (at > 0 && step_precedes(&steps[at], &steps[(at - 1) / 2])) {
        const struct service_step above = steps[(at - 1) / 2];

        steps[(at - 1) / 2] = steps[at];
        steps[at] = above;
        at = (at - 1) / 2;
    }
}

static struct service_step step_take(const struct replay *r)
{
    struct service_step *const steps = r->state->steps;
    const int64_t count = --r->state->count[0];
    const struct service_step first = steps[0];
    int64_t at = 0;

    steps[0] = steps[count];
    for (;;) {
        int64_t least = at;

        for (int64_t below = 2 * at + 1; below <= 2 * at + 2 && below < count; below++)
            if (step_precedes(&steps[below], &steps[least]))
                least = below;
        if (least == at)
            return first;
        const struct service_step moved = steps[at];

        steps[at] = steps[least];
        steps[least] = moved;
        at = least;
    }
}

/* ---- heap of arrived blocks */

static bool block_precedes(const struct replay *r, int64_t first, int64_t second)
{
    const double *const arrivals = r->state->arrivals;

    return arrivals[first] < arrivals[second] ||
           (arrivals[first] == arrivals[second] && first < second);
}

static void block_add(const struct replay *r, int64_t block)
{
    const int64_t stretch = r->b->stretch[block];
    int64_t *const queue = &r->state->queue[stretch];
    int64_t at = r->state->queued[stretch]++;

    for (; at > 0 && block_precedes(r, block, queue[(at - 1) / 2]); at = (at - 1) / 2)
        queue[at] = queue[(at - 1) / 2];
    queue[at] = block;
}

static int64_t block_take(const struct replay *r, int64_t stretch)
{
    int64_t *const queue = &r->state->queue[stretch];
    const int64_t count = --r->state->queued[stretch], first = queue[0], last = queue[count];
    int64_t at = 0;

    for (int64_t below = 1; below < count; below = 2 * at + 1) {
        if (below + 1 < count && block_precedes(r, queue[below + 1], queue[below]))
            below++;
        if (!block_precedes(r, queue[below], last))
            break;
        queue[at] = queue[below];
        at = below;
    }
    queue[at] = last;
    return first;
}

/* ---- steps of a rank */

/* Returns the removed work before an event. That before a block belongs to its place. */
static double removed_before(const struct replay *r, int64_t event)
{
    return r->b->beginning[event] == NO_BLOCK ? r->removed[event] : 0;
}

/* Returns the lead of a rank after an event that depends on others. */
static double continued_lead(const struct replay *r, int64_t event)
{
    const double gap = r->s->gap_ns[event], wait = gap > 0 ? gap : 0;
    const double lead = r->state->leads[r->s->rank[event]] + removed_before(r, event);

    return lesser(lead + wait, r->state->ends[dependence_number(r->s, event)] + (wait - gap));
}

/* Lets a server choose the first message that has arrived, if there is one. */
static void choose_message(const struct replay *r, int64_t rank)
{
    const int64_t stretch = r->state->stretch[rank];

    r->state->is_choosing[rank] = 1;
    if (r->state->queued[stretch] > 0) {
        const double arrival_ns = r->state->arrivals[r->state->queue[stretch]];

        step_add(r, greater(arrival_ns, r->state->begin_ns[rank]), IS_CHOSEN, rank);
    }
}

/* Lets a rank wait for a dependence, or adds the step at which its next event happens. */
static void await_event(const struct replay *r, int64_t rank, int64_t event)
{
    const int64_t number = dependence_number(r->s, event);
    const double time_ns = r->s->time_ns[event];

    if (is_source(r->s, event)) {
        const double lead = r->state->leads[rank] + removed_before(r, event);

        step_add(r, time_ns - lead, HAPPENS, rank);
    } else if (r->state->missing[number] == 0) {
        step_add(r, time_ns - continued_lead(r, event), HAPPENS, rank);
    } else {
        r->state->next_waiting[rank] = r->state->waiting[number];
        r->state->waiting[number] = rank;
    }
}

/* Begins a stretch of blocks at an event. */
static void begin_stretch(const struct replay *r, int64_t rank, int64_t event)
{
    const int64_t block = r->b->beginning[event];

    r->state->stretch[rank] = r->state->position[rank] = block;
    r->state->begin_ns[rank] = r->b->entry_ns[block] - r->state->leads[rank] - r->removed[event];
    choose_message(r, rank);
}

/* Goes on to the next event of a rank after one has happened. */
static void advance_rank(const struct replay *r, int64_t rank)
{
    const int64_t at = r->state->at[rank];

    if (r->state->stretch[rank] != NO_BLOCK && at < r->state->until[rank]) {
        await_event(r, rank, at);
    } else if (r->state->stretch[rank] == NO_BLOCK && at < r->s->first[rank + 1]) {
        if (r->b->beginning[at] == NO_BLOCK)
            await_event(r, rank, at);
        else
            begin_stretch(r, rank, at);
    }
}

/* Finishes a block: sets the begin of the block in the next place, or the lead after the stretch. */
static void finish_block(const struct replay *r, int64_t rank, int64_t event)
{
    const double now_ns = r->s->time_ns[event] - r->state->leads[rank];
    const int64_t place = ++r->state->position[rank];
    const double recorded_ns = r->s->time_ns[r->b->end[place - 1] - 1];

    if (place < r->b->stretch_end[r->state->stretch[rank]]) {
        r->state->begin_ns[rank] =
            now_ns + (r->b->entry_ns[place] - recorded_ns) - r->removed[r->b->begin[place]];
        choose_message(r, rank);
        return;
    }
    r->state->leads[rank] = recorded_ns - now_ns;
    r->state->at[rank] = r->b->end[place - 1];
    r->state->stretch[rank] = NO_BLOCK;
    advance_rank(r, rank);
}

/* Begins the block of the first message that has arrived. */
static void begin_block(const struct replay *r, int64_t rank)
{
    const int64_t block = block_take(r, r->state->stretch[rank]);

    r->state->is_choosing[rank] = 0;
    r->state->leads[rank] = r->b->entry_ns[block] - r->state->begin_ns[rank];
    r->state->at[rank] = r->b->begin[block];
    r->state->until[rank] = r->b->end[block];
    await_event(r, rank, r->state->at[rank]);
}

/* Lets a source arrive: ends its dependence if it is the last one, and sends its message. */
static void arrive(const struct replay *r, int64_t rank, int64_t event)
{
    const int64_t number = r->s->dependence[event], block = r->b->served[event];

    r->state->leads[rank] += removed_before(r, event);
    r->state->ends[number] =
        lesser(r->state->ends[number], r->state->leads[rank] + r->s->gap_ns[event]);
    if (--r->state->missing[number] == 0) {
        int64_t waiting = r->state->waiting[number];

        while (waiting != NO_EVENT) {
            const int64_t next = r->state->next_waiting[waiting];

            await_event(r, waiting, r->state->at[waiting]);
            waiting = next;
        }
    }
    if (block != NO_BLOCK) {
        const int64_t server = r->s->rank[r->b->begin[block]];

        r->state->arrivals[block] = r->b->arrival_ns[block] - r->state->leads[rank];
        block_add(r, block);
        if (r->state->is_choosing[server] && r->state->stretch[server] == r->b->stretch[block] &&
            r->state->queue[r->b->stretch[block]] == block)
            choose_message(r, server);
    }
}

/* Advances the leads of ranks over all events. removed: work that is removed before each event. */
PUBLIC void replay_services(const struct service_events *s, const struct service_blocks *b,
                            struct service_state *state, const double *removed)
{
    const struct replay r = {s, b, state, removed};

    for (int64_t rank = 0; rank < s->ranks; rank++)
        advance_rank(&r, rank);
    while (state->count[0] > 0) {
        const struct service_step step = step_take(&r);
        const int64_t rank = step.rank;

        if (step.version != state->version[rank])
            continue;
        if (step.kind == IS_CHOSEN) {
            begin_block(&r, rank);
            continue;
        }
        const int64_t event = state->at[rank]++;

        state->count[1]++;
        if (is_source(s, event))
            arrive(&r, rank, event);
        else
            state->leads[rank] = continued_lead(&r, event);
        if (state->stretch[rank] != NO_BLOCK && state->at[rank] == state->until[rank])
            finish_block(&r, rank, event);
        else
            advance_rank(&r, rank);
    }
}
