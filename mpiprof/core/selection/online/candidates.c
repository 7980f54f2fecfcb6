/* Candidates of a key and their predicted times. Candidates are the catalogue's algorithms that
 * fit, block sizes around formula (2), and library algorithms with an equivalent in the catalogue.
 *
 * A prediction walks the rounds of this rank's schedule. A round takes alpha, a fraction of alpha
 * for each further message, and the transfer time on the busier side of the port. A round in which
 * this rank only waits takes as long as its own first round. In direct algorithms no rank waits for
 * others to forward data, so their rounds without messages take no time. As in a score, the mean
 * over all ranks counts, but at least half of the maximum. Ranks that the busiest rank serves wait
 * half that long on average, as in a flat tree (arrival.c). For a library algorithm, the schedule
 * of its equivalent is walked. The list is equal on all members, because it depends only on facts
 * that all of them know.
 *
 * The barriers and tokens of an all-to-all prevent contention between phases, which the model does
 * not know. If arrivals are imbalanced, they may gain more than they cost, so they have no cost.
 */
#include <string.h>

#include "base/base.h"
#include "base/mpi_types.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "executor/execution.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"
#include "schedule/algorithms/catalogue.h"
#include "selection/online/selection.h"

enum { MAX_COSTED_ROUNDS = 2048 };

bool candidate_applies(const struct algorithm *a, const struct execution *e)
{
    if (strcmp(a->operation, operation_names[e->call->operation]) != 0 ||
        a->inter != e->call->comm->inter)
        return false;
    if (e->reduces && ((!a->keeps_order && predefined_reduction(e->element.op) == NULL) ||
                       !private_comm_may_reduce(e->call->comm)))
        return false;
    return a->applies == NULL || a->applies(&e->problem);
}

/* Return true if the algorithm applies and may use its memory, as far as all members know the
 * sizes. */
bool candidate_fits(const struct algorithm *a, const struct execution *e)
{
    if (!candidate_applies(a, e))
        return false;
    const int64_t needed = a->needs_counts ? 0 : pack_buffer_scratch_bytes(a, e);
    const bool fits = scratch_fits(e->call->comm, needed);

    if (!fits)
        scratch_note_omitted(e->call->comm, a, needed);
    return fits;
}

/* The same for a variant, which may be a library algorithm. */
bool candidate_may_run(const struct variant *v, const struct execution *e)
{
    if (v->library_algorithm != NULL)
        return library_algorithm_applies(v->library_algorithm, v->segment, e);
    return v->algorithm != NULL && candidate_fits(v->algorithm, e);
}

/* ---- predictions */

struct port { /* bytes that have passed the port so far */
    double sent, received;
};

/* `synchronises`: whether barriers and tokens take time. */
static double round_time(const struct problem *p, const struct link *link, const struct round *r,
                         struct port *port, bool synchronises)
{
    const double reduced_ns = 0.25; /* ns per byte, a typical memory rate; no measurement exists */
    const struct port before = *port;
    double own = 0;
    int messages = 0;

    for (int i = 0; i < r->count; i++) {
        const struct step *const s = &r->steps[i];

        if (s->kind == STEP_SEND)
            port->sent += (double)s->length;
        else if (s->kind == STEP_RECEIVE)
            port->received += (double)s->length;
        else if (s->kind == STEP_REDUCE)
            own += reduced_ns * (double)s->length;
        else if (s->kind == STEP_BARRIER && synchronises)
            own += p->alpha * log2_ceiling(p->size);
        messages += (s->kind == STEP_SEND || s->kind == STEP_RECEIVE) &&
                    (synchronises || (s->flags & STEP_TOKEN) == 0);
    }
    const double out = machine_message_ns(link, port->sent) - machine_message_ns(link, before.sent);
    const double in =
        machine_message_ns(link, port->received) - machine_message_ns(link, before.received);

    if (messages > 0)
        own += p->alpha * (1 + 0.1 * (messages - 1)) + (out > in ? out : in);
    return own;
}

/* Return the predicted time in ns for this rank alone, or 0 if no prediction is possible. If the
 * last rank is late by more than the operation takes, it finds the work of the others done. A
 * tree has combined most data by then. The same holds for an algorithm that receives the late rank
 * as a parameter, which runs in no other case. */
int64_t candidate_predicted(const struct candidate *c, struct execution *e,
                            enum arrival_pattern pattern)
{
    struct problem problem = e->problem;
    struct context context = {0};
    struct round r = {0};
    struct port port = {0};
    double total = 0, first = 0, idle = 0;

    const struct algorithm *const a = c->similar != NULL ? c->similar : c->variant.algorithm;

    if (a == NULL || a->needs_counts)
        return 0;
    variant_apply(&c->variant, &problem);
    if (c->similar != NULL) /* in segments, or the whole message */
        problem.block_size = c->variant.segment > 0 ? c->variant.segment : problem.bytes;
    problem.nodes = private_of(e->call->comm)->nodes;
    if (!schedule_prepare(a, &context, &problem, e->call->comm->rank))
        return 0;
    const int64_t rounds = a->rounds(&context), stride = rounds / MAX_COSTED_ROUNDS + 1;
    const bool synchronises = pattern == ARRIVALS_BALANCED || !a->direct;

    for (int64_t i = a->early != NULL ? a->early(&context) : 0; i < rounds; i += stride) {
        schedule_round(a, &context, i, &r);
        const double takes =
            round_time(&problem, private_comm_link(e->call->comm), &r, &port, synchronises);

        total += takes;
        idle += takes == 0 && !a->direct;
        first = first > 0 ? first : takes;
    }
    memory_free(r.steps);
    schedule_free(&context);
    return 1 + (int64_t)((total + (pattern == ARRIVALS_LATE ? 0 : idle * first)) * (double)stride);
}

/* ---- the list */

static int candidate_add(struct candidate *list, int count, const struct variant *v)
{
    if (count == MOST_LIST)
        return count;
    list[count] = (struct candidate){.variant = *v};
    list[count].variant.label = variant_label(
        v->library_algorithm != NULL ? v->library_algorithm->label : v->algorithm->name, v);
    return count + 1;
}

static double total_bytes(const struct problem *p)
{
    return (double)(p->bytes + (p->counts != NULL ? problem_sum(p) : 0));
}

/* Return the block size B that minimises (bytes / B + p)(alpha + B beta), rounded to a power of
 * two. Returns 0 if blocks gain nothing. */
static int64_t best_block(const struct problem *p)
{
    if (p->size < 3 || p->beta <= 0)
        return 0;
    const double square = total_bytes(p) * p->alpha / (p->beta * (p->size - 2));
    int64_t best = 1;

    while ((double)best * (double)best * 2 < square)
        best *= 2;
    return best;
}

/* Add half and twice the best block size, because the measured alpha and beta describe a machine
 * only approximately. If there is one message, the best size replaces the algorithm's default. The
 * sizes then form a ladder that the search in probe.c climbs. */
static int add_block_sizes(struct candidate *list, int count, int plain, const struct problem *p)
{
    const struct algorithm *const a = list[plain].variant.algorithm;
    const double total = total_bytes(p);
    const int64_t best = best_block(p);

    if (a->early != NULL || a->parameters == NULL || strstr(a->parameters, "block_size") == NULL ||
        best == 0)
        return count;
    if (p->counts == NULL && best >= LEAST_BLOCK && (double)best < total)
        candidate_add(list, plain, &(struct variant){.algorithm = a, .block_size = best});
    for (int64_t b = best / 2; b <= best * 2; b *= 4)
        if (b >= LEAST_BLOCK && (double)b < total)
            count = candidate_add(list, count, &(struct variant){.algorithm = a, .block_size = b});
    return count;
}

/* Return the index of the candidate with the wanted parameters, which is added if necessary.
 * Returns 0 if the list is full. A new candidate inherits the predicted time of `which`. */
int candidate_changed(struct candidate *list, int *count, int which, const struct variant *wanted)
{
    for (int i = 1; i < *count; i++)
        if (variant_same(&list[i].variant, wanted))
            return i;
    if (*count == MOST_LIST)
        return 0;
    *count = candidate_add(list, *count, wanted);
    list[*count - 1].predicted_ns = list[which].predicted_ns;
    return *count - 1;
}

/* Return true if there are several nodes and some node has several members. */
static bool several_a_node(const struct communicator *k)
{
    const int *const nodes = private_of(k)->nodes;
    int last = 0;

    for (int i = 0; nodes != NULL && i < k->size; i++)
        last = nodes[i] > last ? nodes[i] : last;
    return last > 0 && last < k->size - 1;
}

/* Add the library algorithms that all members can request, with the best segment size if a message
 * has several segments. */
static int library_algorithms_add(struct candidate *list, int count, struct execution *e)
{
    const int64_t best = best_block(&e->problem);

    for (int i = 0; i < mpi_t_algorithm_count; i++) {
        const struct library_algorithm *const own = &mpi_t_algorithms[i];
        const struct algorithm *const like =
            own->operation == e->call->operation
                ? catalogue_find(operation_names[own->operation], own->similar, false)
                : NULL;
        struct variant v = {.library_algorithm = own};

        if (own->segmented && best >= LEAST_BLOCK && best < e->problem.bytes)
            v.segment = best;
        if (like == NULL || count == MOST_LIST || !candidate_fits(like, e) ||
            !candidate_may_run(&v, e) || !library_algorithm_known(e->call->comm, own, v.segment))
            continue;
        count = candidate_add(list, count, &v);
        list[count - 1].similar = like;
        list[count - 1].has_needs = !ALGORITHM_NEEDS_COMM;
    }
    return count;
}

/* List the algorithms of these names that fit, after the library's default at index 0, which stays.
 * Returns their number. */
int candidates_named(struct candidate *list, const struct execution *e, const char *const *names,
                     int count)
{
    int listed = 1;

    for (int i = 0; i < count; i++) {
        const struct algorithm *const a =
            catalogue_find(operation_names[e->call->operation], names[i], false);

        if (a != NULL && candidate_fits(a, e))
            listed = candidate_add(list, listed, &(struct variant){.algorithm = a});
    }
    return listed;
}

/* List the candidates; index 0 is the library's default. Returns their number. */
int candidates_list(struct candidate *list, struct execution *e)
{
    int count = 1;

    list[NATIVE] = (struct candidate){0};
    for (int i = 0; i < catalogue_count; i++)
        if (candidate_fits(catalogue[i], e))
            count = candidate_add(list, count, &(struct variant){.algorithm = catalogue[i]});
    const int plain = count;

    for (int i = 1; i < plain; i++)
        count = add_block_sizes(list, count, i, &e->problem);
    for (int i = 1; i < plain && several_a_node(e->call->comm); i++) {
        const struct algorithm *const a = list[i].variant.algorithm;

        if (a->parameters != NULL && strstr(a->parameters, "order=") != NULL)
            count =
                candidate_add(list, count, &(struct variant){.algorithm = a, .order = ORDER_BOTH});
    }
    return e->call->comm->inter ? count : library_algorithms_add(list, count, e);
}
