/* Interface of the schedules for Python, with plain numbers and addresses, so that Python copies no
 * struct.
 *
 * It is not part of the recorder. It is linked with the schedules into a separate library that
 * needs no MPI (mpiprof/collectives/schedule.py).
 */
#include <string.h>

#include "base/base.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/schedule.h"

struct handle {
    struct problem problem;
    struct context context;
    struct round round;
    int64_t rounds;
};

/* Return text `which` of catalogue entry i: operation, name, restrictions, cost, parameters,
 * source. */
PUBLIC const char *schedule_text(int i, int which)
{
    const struct algorithm *const a = catalogue[i];
    const char *const texts[] = {a->operation, a->name,       a->restrictions,
                                 a->cost,      a->parameters, a->source};

    return texts[which];
}

/* Return a sum of flags: 1 for inter-communicators, 2 preserves the order of operands, 4 requires
 * the counts of the local group. */
PUBLIC int schedule_traits(int i)
{
    const struct algorithm *const a = catalogue[i];

    return (a->inter ? 1 : 0) | (a->keeps_order ? 2 : 0) | (a->needs_counts ? 4 : 0);
}

/* Return a handle of a schedule, or NULL if the algorithm does not apply or memory is insufficient.
 * numbers: size, remote_size, root, bytes, remote_bytes, unit, block_size, order, first_group,
 * equal_blocks, late. The arrays must outlive the handle. */
PUBLIC struct handle *schedule_open(int i, int rank, const int64_t *numbers, const int64_t *counts,
                                    const int64_t *remote_counts, const int *nodes, double alpha,
                                    double beta)
{
    struct handle *const h = memory_allocate(sizeof *h);

    if (h == NULL)
        return NULL;
    h->problem = (struct problem){.size = (int)numbers[0],
                                  .remote_size = (int)numbers[1],
                                  .root = (int)numbers[2],
                                  .bytes = numbers[3],
                                  .remote_bytes = numbers[4],
                                  .unit = numbers[5],
                                  .counts = counts,
                                  .remote_counts = remote_counts,
                                  .nodes = nodes,
                                  .alpha = alpha,
                                  .beta = beta,
                                  .block_size = numbers[6],
                                  .order = (int)numbers[7],
                                  .first_group = numbers[8] != 0,
                                  .equal_blocks = numbers[9] != 0,
                                  .late = (int)numbers[10]};
    if (schedule_prepare(catalogue[i], &h->context, &h->problem, rank)) {
        h->rounds = catalogue[i]->rounds(&h->context);
        return h;
    }
    memory_free(h);
    return NULL;
}

PUBLIC int64_t schedule_rounds(const struct handle *h)
{
    return h->rounds;
}

PUBLIC int64_t schedule_scratch(const struct handle *h)
{
    return schedule_scratch_of(h->context.algorithm, &h->problem);
}

/* Steps of rounds first .. last - 1, with COLUMNS numbers each (see schedule_columns).
 * schedule_steps returns the number of steps, or -1 if memory is insufficient, and writes at most
 * `room` steps. */
enum { COLUMNS = 9 };

PUBLIC const char *schedule_columns(void)
{
    return "round kind peer buffer offset length source source_offset flags";
}

PUBLIC int64_t schedule_steps(struct handle *h, int64_t first, int64_t last, int64_t *rows,
                              int64_t room)
{
    int64_t count = 0;

    for (int64_t r = first; r < last; r++) {
        schedule_round(h->context.algorithm, &h->context, r, &h->round);
        for (int i = 0; i < h->round.count; i++, count++) {
            const struct step *const s = &h->round.steps[i];
            const int64_t row[COLUMNS] = {r,         s->kind,          s->peer,
                                          s->buffer, s->offset,        s->length,
                                          s->source, s->source_offset, s->flags};

            if (count < room)
                memcpy(rows + COLUMNS * count, row, sizeof row);
        }
    }
    return h->round.failed ? -1 : count;
}

/* Network traffic of one round of many processes, for the simulator: O(messages) numbers instead of
 * all steps. */
struct traffic {
    int32_t *peers;   /* targets of all sends, by handle, in order of emission */
    int64_t *lengths; /* bytes of these sends */
    int64_t room, count;
    uint64_t balance; /* hashes of sends minus hashes of receives: 0 if they match */
};
enum { FACTS = 4 }; /* per handle: sends, receives, bytes reduced, barriers */

static uint64_t message_hash(int from, int to, int64_t length)
{
    uint64_t x = (uint64_t)from << 32 ^ (uint64_t)to ^ (uint64_t)length * 0x9E3779B97F4A7C15u;

    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Add a step of process `self`. `first` is the process number of rank 0 of the peer's group. */
static void add_step(struct traffic *t, int64_t *facts, int self, const int *first,
                     const struct step *s)
{
    const int peer = s->peer + first[(s->flags & STEP_REMOTE) != 0];

    if (s->kind == STEP_SEND) {
        if (t->count < t->room) {
            t->peers[t->count] = peer;
            t->lengths[t->count] = s->length;
        }
        t->count++;
        facts[0]++;
        t->balance += message_hash(self, peer, s->length);
    } else if (s->kind == STEP_RECEIVE) {
        facts[1]++;
        t->balance -= message_hash(peer, self, s->length);
    } else if (s->kind == STEP_REDUCE) {
        facts[2] += s->length;
    } else if (s->kind == STEP_BARRIER) {
        facts[3]++;
    }
}

/* Collect round r of all ranks of a group. Processes of the local group are numbered from `first`,
 * processes of the remote group from `remote_first`. Returns the number of sends, or -1 if memory
 * is insufficient, and writes at most `room` sends. Adds to `balance`. */
PUBLIC int64_t schedule_traffic(struct handle *const *handles, int count, int64_t r, int first,
                                int remote_first, int64_t *facts, int32_t *peers, int64_t *lengths,
                                int64_t room, uint64_t *balance)
{
    struct traffic t = {.peers = peers, .lengths = lengths, .room = room};
    const int firsts[] = {first, remote_first};

    memset(facts, 0, sizeof *facts * FACTS * (size_t)count);
    for (int i = 0; i < count; i++) {
        struct handle *const h = handles[i];

        if (r >= h->rounds)
            continue;
        schedule_round(h->context.algorithm, &h->context, r, &h->round);
        if (h->round.failed)
            return -1;
        for (int k = 0; k < h->round.count; k++)
            add_step(&t, facts + (int64_t)FACTS * i, first + i, firsts, &h->round.steps[k]);
    }
    *balance += t.balance;
    return t.count;
}

/* The messages of one process in its current round, with at most one in each direction. */
enum turn { TURN_TARGET, TURN_LENGTH, TURN_SOURCE, TURN_REDUCED, TURN_OTHER, TURN_FACTS };

static void round_add(int64_t *turn, const int *first, const struct step *s)
{
    const int peer = s->peer + first[(s->flags & STEP_REMOTE) != 0];

    if (s->kind == STEP_REDUCE) {
        turn[TURN_REDUCED] += s->length;
    } else if (s->kind == STEP_SEND && turn[TURN_TARGET] < 0) {
        turn[TURN_TARGET] = peer;
        turn[TURN_LENGTH] = s->length;
    } else if (s->kind == STEP_RECEIVE && turn[TURN_SOURCE] < 0) {
        turn[TURN_SOURCE] = peer;
    } else if (s->kind != STEP_COPY) {
        turn[TURN_OTHER] = 1; /* a barrier, or a second message */
    }
}

/* Store for each of `count` handles round rounds[i]: target or -1, bytes, source or -1, bytes
 * reduced, and 1 if the round contains more. firsts: two process numbers per handle, of rank 0 of
 * the local and of the remote group. Returns false if memory is insufficient. */
PUBLIC bool schedule_turns(struct handle *const *handles, int count, const int64_t *rounds,
                           const int *firsts, int64_t *turns)
{
    for (int i = 0; i < count; i++) {
        struct handle *const h = handles[i];
        int64_t *const turn = turns + (int64_t)TURN_FACTS * i;

        memset(turn, 0, sizeof *turn * TURN_FACTS);
        turn[TURN_TARGET] = turn[TURN_SOURCE] = -1;
        if (rounds[i] >= h->rounds)
            continue;
        schedule_round(h->context.algorithm, &h->context, rounds[i], &h->round);
        if (h->round.failed)
            return false;
        for (int k = 0; k < h->round.count; k++)
            round_add(turn, firsts + 2 * (int64_t)i, &h->round.steps[k]);
    }
    return true;
}

PUBLIC int schedule_entries(void)
{
    return catalogue_count;
}

PUBLIC void schedule_close(struct handle *h)
{
    schedule_free(&h->context);
    memory_free(h->round.steps);
    memory_free(h);
}
