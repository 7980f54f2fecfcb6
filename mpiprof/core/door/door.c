/* The door for Python: plain numbers and addresses, no struct to be copied by hand.
 *
 * Not in the recorder: linked with the schedules into a library of its own, which needs no MPI
 * (mpiprof/model/schedule.py).
 */
#include <string.h>

#include "base/memory.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/schedule.h"

#define DOOR __attribute__((visibility("default")))

struct handle {
    struct problem problem;
    struct context context;
    const struct algorithm *algorithm;
    struct round round;
    int64_t rounds;
};

/* Texts of entry i, in the order operation, name, restrictions, cost, parameters, source. */
DOOR const char *schedule_text(int i, int which)
{
    if (i < 0 || i >= catalogue_count)
        return NULL;
    const struct algorithm *const a = catalogue[i];
    const char *const texts[] = {a->operation, a->name,       a->restrictions,
                                 a->cost,      a->parameters, a->source};

    return which >= 0 && which < 6 ? texts[which] : NULL;
}

/* 1: for inter-communicators; 2: keeps the order of operands; 4: needs the own group's counts. */
DOOR int schedule_traits(int i)
{
    const struct algorithm *const a = catalogue[i];

    return (a->inter ? 1 : 0) | (a->keeps_order ? 2 : 0) | (a->needs_counts ? 4 : 0);
}

/* numbers: size, remote_size, root, bytes, remote_bytes, unit, block_size, order, first_group,
 * equal_blocks, late.
 * The arrays must outlive the handle. NULL: doesn't apply. */
DOOR struct handle *schedule_open(int i, int rank, const int64_t *numbers, const int64_t *counts,
                                  const int64_t *remote_counts, const int *nodes, double alpha,
                                  double beta)
{
    struct handle *const h = memory_get(sizeof *h);

    if (h == NULL)
        return NULL;
    h->algorithm = catalogue[i];
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
    if (schedule_prepare(h->algorithm, &h->context, &h->problem, rank)) {
        h->rounds = h->algorithm->rounds(&h->context);
        return h;
    }
    memory_free(h);
    return NULL;
}

DOOR int64_t schedule_rounds(const struct handle *h)
{
    return h->rounds;
}

DOOR int64_t schedule_scratch(const struct handle *h)
{
    return schedule_scratch_of(h->algorithm, &h->problem);
}

/* Steps of rounds first .. last - 1, COLUMNS numbers each (see schedule_columns). Returns how many
 * steps there are; writes no more than `room`. */
enum { COLUMNS = 9 };

DOOR const char *schedule_columns(void)
{
    return "round kind peer buffer offset length source source_offset flags";
}

DOOR int64_t schedule_steps(struct handle *h, int64_t first, int64_t last, int64_t *rows,
                            int64_t room)
{
    int64_t count = 0;

    for (int64_t r = first; r < last; r++) {
        schedule_round(h->algorithm, &h->context, r, &h->round);
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

/* What one round of many processes puts on the network, for the simulator: O(messages) numbers in
 * place of all steps. */
struct traffic {
    int32_t *peers;   /* of all sends, those of a handle together, in the order of emission */
    int64_t *lengths; /* and their bytes */
    int64_t room, count;
    uint64_t balance; /* hashes of sends less those of receives: 0 where they match */
};
enum { FACTS = 4 }; /* of each handle: sends, receives, bytes reduced, barriers */

static uint64_t message_hash(int from, int to, int64_t length)
{
    uint64_t x = (uint64_t)from << 32 ^ (uint64_t)to ^ (uint64_t)length * 0x9E3779B97F4A7C15u;

    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Process `self`; `first` is the number of rank 0 of the group that a peer is in. */
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

/* Round r of all ranks of a group; processes are numbered through, those of the own group from
 * `first`, those of the remote one from `remote_first`. Returns how many sends there are, -1:
 * no memory; writes no more than `room`. `balance` is added to. */
DOOR int64_t schedule_traffic(struct handle *const *handles, int count, int64_t r, int first,
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
        schedule_round(h->algorithm, &h->context, r, &h->round);
        if (h->round.failed)
            return -1;
        for (int k = 0; k < h->round.count; k++)
            add_step(&t, facts + (int64_t)FACTS * i, first + i, firsts, &h->round.steps[k]);
    }
    *balance += t.balance;
    return t.count;
}

/* The messages of one process in one round of its own, where it has at most one each way. */
enum turn { TURN_TARGET, TURN_LENGTH, TURN_SOURCE, TURN_REDUCED, TURN_OTHER, TURN_FACTS };

static void add_turn(int64_t *turn, const int *first, const struct step *s)
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

/* For each of `count` handles its round rounds[i]: target or -1, bytes, source or -1, bytes
 * reduced, and whether there is more than that. firsts: two numbers a handle, of rank 0 of its own
 * group and of the remote one. False: no memory. */
DOOR bool schedule_turns(struct handle *const *handles, int count, const int64_t *rounds,
                         const int *firsts, int64_t *turns)
{
    for (int i = 0; i < count; i++) {
        struct handle *const h = handles[i];
        int64_t *const turn = turns + (int64_t)TURN_FACTS * i;

        memset(turn, 0, sizeof *turn * TURN_FACTS);
        turn[TURN_TARGET] = turn[TURN_SOURCE] = -1;
        if (rounds[i] >= h->rounds)
            continue;
        schedule_round(h->algorithm, &h->context, rounds[i], &h->round);
        if (h->round.failed)
            return false;
        for (int k = 0; k < h->round.count; k++)
            add_turn(turn, firsts + 2 * (int64_t)i, &h->round.steps[k]);
    }
    return true;
}

DOOR int schedule_entries(void)
{
    return catalogue_count;
}

DOOR void schedule_close(struct handle *h)
{
    schedule_free(&h->context);
    memory_free(h->round.steps);
    memory_free(h);
}
