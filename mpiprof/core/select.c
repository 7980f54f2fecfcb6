/* Which algorithm a call runs on.
 *
 * A choice must be the same on all members of an instance, so it depends only on what MPI makes
 * them agree on: operation, the bytes that all members know, the communicator's identity and the
 * sequence number, and rules that are the same on all ranks (rules.c); a wish for a call site is
 * made one for a key (key.c). What only one rank knows (its datatype's layout, MPI_IN_PLACE at the
 * root, a wrong argument) decides nothing; a call whose own argument check fails goes to the
 * library, and has taken part in nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auto.h"
#include "memory.h"

enum { MOST_CANDIDATES = 32 };

static bool random_choice;
static uint64_t seed;
static _Atomic int switched_calls; /* since a study last asked */
static bool switched[OP_COUNT][2]; /* the catalogue has algorithms, [1]: for inter-communicators */

/* ---- the arguments of a call, as C or Fortran gave them */

MPI_Datatype argument_type(const struct arguments *a, const void *types, size_t i)
{
#ifdef MPIPROF_FORTRAN
    if (a->fortran)
        return type_f2c(((const MPI_Fint *)types)[i]);
#endif
    (void)a;
    return ((const MPI_Datatype *)types)[i];
}

int64_t argument_count(const struct arguments *a, const void *counts, size_t i)
{
    return a->large ? ((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
}

int64_t argument_displacement(const struct arguments *a, const void *displs, size_t i)
{
    return a->large ? ((const MPI_Aint *)displs)[i] : ((const int *)displs)[i];
}

MPI_Op argument_op(const struct arguments *a)
{
#ifdef MPIPROF_FORTRAN
    if (a->fortran)
        return op_f2c(*(const MPI_Fint *)a->op);
#endif
    return *(const MPI_Op *)a->op;
}

/* As C gives it: Open MPI's Fortran has an address of its own for MPI_BOTTOM. */
static const void *argument_buffer(const struct arguments *a, const void *buffer)
{
    for (size_t i = 0; a->fortran && buffer != NULL && i < 4; i++)
        if (buffer == pmpi.fortran_bottom[i])
            return NULL;
    return buffer;
}

/* ---- start and end */

static void switching_start(void)
{
    const char *const model = getenv("MPIPROF_SWITCH_MODEL");

    if (model != NULL)
        text_scan(model, "%lf %lf", &machine_link.alpha, &machine_link.beta);
    for (int i = 0; i < schedule_count; i++)
        for (int op = 0; op < OP_COUNT; op++)
            if (strcmp(schedule_algorithms[i]->operation, operation_names[op]) == 0)
                switched[op][schedule_algorithms[i]->inter] = true;
    stage_start();
    scratch_start();
    valid_start();
    recorder.switching = true;
}

/* Why nothing may be switched in this process, nor in any other of the job; NULL: it may. */
static const char *obstacle(void)
{
    if (!pmpi.can_switch)
        return "this MPI library is too old";
    if (!memory_had())
        return "there is no memory for it";
    if (!recorder.agreed && !recorder.sessions)
        return "the ranks were given different options, or run different versions of mpiprof";
    if (library_survives_failures())
        return "the MPI library was told to survive failures of processes, and a switched call "
               "would not";
    return NULL;
}

void select_start(void)
{
    const char *const given = getenv("MPIPROF_SWITCH"), *const text = given != NULL ? given : "";
    const bool chooses = getenv("MPIPROF_AUTO") != NULL;
    unsigned long long number;

    if (*text == '\0' && !chooses && !recorder.options.summary)
        return;
    const char *const why_not = obstacle();

    if (why_not != NULL) {
        if (recorder.rank == 0)
            recorder_say("nothing is switched, nor are arrivals summed up: %s", why_not);
        return;
    }
    if (sscanf(text, "random %llu", &number) == 1) {
        random_choice = true;
        seed = number;
    } else if (rules_read(text) == 0 && !chooses && !recorder.options.summary) {
        return;
    }
    switching_start();
    recorder.names_sites = chooses;
    if ((chooses || recorder.options.summary) && !random_choice)
        auto_start(chooses);
}

/* For `bench`: from here on calls run by this rule alone, as the library does it (""), or as they
 * find out themselves, from the beginning ("auto") or from where they were ("auto again").
 * All ranks call it alike, between collectives, from one thread. Returns how many calls have run on
 * algorithms of ours since it was called before, -1: it can't be done. */
PUBLIC int mpiprof_study_choose(const char *rule)
{
    const bool begins = strcmp(rule, "auto") == 0;
    const bool chooses = begins || strcmp(rule, "auto again") == 0;

    if (!atomic_load(&recorder.active) || !pmpi.can_switch || !rules_only(chooses ? "" : rule))
        return -1;
    if (!recorder.switching)
        switching_start();
    automatic = chooses;
    if (begins) {
        keys_begin_anew();
        auto_start(true);
    }
    return atomic_exchange(&switched_calls, 0);
}

/* In MPI_Finalize, by all ranks; `comm` has all of them, or is MPI_COMM_NULL. */
void select_end(MPI_Comm comm)
{
    if (!recorder.switching)
        return;
    auto_finish(comm);
    remarks_end(comm);
    valid_end();
}

void select_inherit(struct communicator *child, const struct communicator *parent)
{
    if (automatic)
        keys_inherit(child, parent);
}

/* ---- what all members know */

static bool is_v(int operation)
{
    return operation == OP_alltoallv || operation == OP_gatherv || operation == OP_scatterv;
}

static int64_t side_bytes(const struct arguments *a, const struct side *s)
{
    return argument_count(a, s->count, 0) * type_facts(argument_type(a, s->type, 0)).size;
}

static int64_t *counts_bytes(const struct arguments *a, const struct side *s, MPI_Datatype type,
                             int members, int which)
{
    int64_t *const counts = counts_take(which, members);
    const int64_t size = type_facts(type).size;

    for (int i = 0; counts != NULL && i < members; i++)
        counts[i] = argument_count(a, s->counts, (size_t)i) * size;
    return counts;
}

/* Fills in the problem from this rank's arguments; false: no memory. */
static bool problem_of(struct execution *e)
{
    const struct call *const c = e->call;
    const struct communicator *const k = c->comm;
    const struct arguments *const a = e->arguments;
    const bool in_place = argument_in_place(a, a->sendbuf);
    const int members = k->inter ? k->remote_size : k->size;
    struct problem *const p = &e->problem;

    *p = (struct problem){.size = k->size,
                          .remote_size = k->inter ? k->remote_size : 0,
                          .root = c->root,
                          .unit = 1,
                          .alpha = link_of(k)->alpha,
                          .beta = link_of(k)->beta,
                          .first_group = k->first_group};
    switch (c->operation) {
    case OP_barrier: return true;
    case OP_alltoall: p->bytes = side_bytes(a, &a->recv); return true;
    case OP_gatherv:
    case OP_scatterv: {
        const bool gathers = c->operation == OP_gatherv, root = c->root == k->rank;
        const struct side *const s = gathers == root ? &a->recv : &a->send;

        if (!root)
            p->bytes = side_bytes(a, s); /* of itself is all that a rank knows */
        else
            p->counts = counts_bytes(a, s, argument_type(a, s->type, 0), members, 0);
        return !root || p->counts != NULL;
    }
    case OP_alltoallv:
        p->remote_counts = counts_bytes(a, &a->recv, argument_type(a, a->recv.type, 0), members, 1);
        p->counts = in_place
                        ? p->remote_counts
                        : counts_bytes(a, &a->send, argument_type(a, a->send.type, 0), members, 0);
        return p->counts != NULL && p->remote_counts != NULL;
    case OP_allgather:
        if (k->inter) {
            p->bytes = side_bytes(a, &a->send);
            p->remote_bytes = side_bytes(a, &a->recv);
        } else {
            p->bytes = side_bytes(a, &a->recv);
        }
        return true;
    case OP_allgatherv:
        if (k->inter) { /* of its own group a rank knows its own count */
            int64_t *const own = counts_take(0, k->size);

            p->remote_counts =
                counts_bytes(a, &a->recv, argument_type(a, a->recv.type, 0), members, 1);
            p->counts = own;
            p->bytes = side_bytes(a, &a->send);
            if (own != NULL)
                own[k->rank] = p->bytes;
            return own != NULL && p->remote_counts != NULL;
        }
        p->counts = counts_bytes(a, &a->recv, argument_type(a, a->recv.type, 0), members, 0);
        return p->counts != NULL;
    case OP_gather:
    case OP_scatter:
        p->bytes = c->operation == OP_gather && c->root != k->rank ? side_bytes(a, &a->send)
                   : c->operation == OP_gather                     ? side_bytes(a, &a->recv)
                   : c->root == k->rank                            ? side_bytes(a, &a->send)
                                                                   : side_bytes(a, &a->recv);
        return true;
    case OP_reduce_scatter:
        p->counts = counts_bytes(a, &a->recv, argument_type(a, a->send.type, 0), members, 0);
        return p->counts != NULL;
    case OP_reduce_scatter_block:
        p->bytes = argument_count(a, a->recv.count, 0) *
                   type_facts(argument_type(a, a->send.type, 0)).size;
        return true;
    default: /* bcast, reduce, allreduce */ p->bytes = side_bytes(a, &a->send); return true;
    }
}

/* Whether all members know the sizes. */
bool problem_is_known(const struct execution *e)
{
    const int operation = e->call->operation;

    return switched[operation][e->call->comm->inter] && operation != OP_barrier &&
           !is_v(operation) &&
           !(operation == OP_allgatherv && e->call->comm->inter); /* each knows the others' */
}

static int64_t known_bytes(const struct execution *e)
{
    int64_t total = 0;

    if (!problem_is_known(e))
        return -1;
    if (e->problem.counts == NULL)
        return e->problem.bytes + e->problem.remote_bytes;
    for (int i = 0; i < e->problem.size; i++)
        total += e->problem.counts[i];
    return total;
}

/* ---- candidates */

/* In at most 512 blocks, where all know the bytes: 300 KB in blocks of one byte took minutes where
 * ranks outnumber processors. */
static const struct algorithm *pick_random(struct execution *e, int64_t bytes)
{
    const struct algorithm *found[MOST_CANDIDATES];
    int count = 1; /* place 0 is the library's own */

    for (int i = 0; i < schedule_count && count < MOST_CANDIDATES; i++)
        if (candidate_fits(schedule_algorithms[i], e))
            found[count++] = schedule_algorithms[i];
    const uint64_t h = hash_mix(hash_mix(seed, e->call->comm->identity), e->call->sequence);
    const uint64_t which = h % (uint64_t)count;

    const int64_t least = bytes > 0 ? 1 + bytes / 512 : 1;

    e->problem.block_size = h >> 32 & 1 ? 0 : least + (int64_t)(h >> 40 & 0xfff);
    e->problem.order = h >> 52 & 3;
    e->problem.equal_blocks = h >> 54 & 1;
    return which == 0 ? NULL : found[which];
}

/* ---- choosing */

static const struct algorithm *take_candidate(struct execution *e, const struct candidate *c,
                                              const char **label)
{
    if (c == NULL)
        return NULL;
    e->problem.block_size = c->block_size;
    e->problem.order = c->order;
    *label = c->label;
    return c->algorithm;
}

/* NULL: the library's own. Called by all members. */
static const struct algorithm *choose(struct execution *e, const char **label)
{
    struct communicator *const k = e->call->comm;
    const struct asked q = {.operation = operation_names[e->call->operation],
                            .bytes = known_bytes(e),
                            .size = k->size + k->remote_size,
                            .inter = k->inter};

    if (random_choice) {
        const struct algorithm *const a = pick_random(e, q.bytes);

        *label = a != NULL ? a->name : NULL;
        return a;
    }
    const uint64_t sites = rules_by_site(&q);
    const bool watched = auto_takes(e->call);
    struct key *key = NULL;
    int index = RULE_NONE;

    if (sites != 0 || watched) {
        const uint64_t hash = key_hash(e);

        key = key_find(k, sites != 0 ? hash_mix(hash, sites) : hash, e->call->sequence);
    }
    const bool keyed = key != NULL; /* else memory is short, and no private communicator made */

    if (sites != 0 && private_ready(k, e->call->handle) && keyed)
        index = key_choice(key, e, &q);
    if (index == RULE_NONE)
        index = rules_general(&q);
    struct rule *const r = rule_at(index);

    if (automatic && watched && keyed)
        return take_candidate(e, auto_choose(e, key, r), label);
    if (watched && keyed)
        auto_watch(e, key);
    if (r == NULL)
        return NULL;
    const struct algorithm *const a = schedule_find(q.operation, r->algorithm, q.inter);

    e->problem.block_size = r->block_size;
    e->problem.order = r->order;
    e->problem.equal_blocks = r->equal_blocks;
    const bool applies = r->native || (a != NULL && candidate_applies(a, e));

    if (communicator_leads(k))
        atomic_fetch_add(applies ? &r->applied : &r->left_alone, 1);
    *label = r->label;
    return applies && !r->native && candidate_fits(a, e) ? a : NULL;
}

/* ---- a call */

/* Whether all members depend on what this one sends, so that all hear when it calls it off. An
 * empty block is not heard of. */
static bool may_be_called_off(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    const int operation = e->call->operation;

    if (operation == OP_allgatherv)
        return p->counts[e->call->comm->rank] > 0;
    for (int i = 0; operation == OP_alltoallv && i < p->size; i++)
        if (p->counts[i] == 0 || p->remote_counts[i] == 0)
            return false;
    return e->call->root == ROOT_NONE;
}

/* Of what this rank sends to itself; a root's is sent by the library (stage.c). */
static bool longer_than_expected(const struct execution *e)
{
    struct own_sides own;

    return e->call->root == ROOT_NONE && own_sides(e->call, e->arguments, &own) &&
           own_block_bytes(&own.sent) > own_block_bytes(&own.received);
}

/* Whether all members have the memory; on an inter-communicator they learn the own group's counts
 * as well. */
static bool has_memory(struct execution *e)
{
    struct communicator *const k = e->call->comm;
    const int most = k->size > k->remote_size ? k->size : k->remote_size;

    if (e->algorithm->needs_counts) {
        if (!scratch_had(k, most * (int64_t)sizeof(int64_t)))
            return false;
        execute_counts(e, counts_take(0, k->size), (int64_t *)k->scratch.bytes);
    }
    return stage_has_memory(e);
}

/* False: the call is to run on the library's own, on all members: one of them lacks memory, or has
 * called it off. */
static bool run(struct execution *e)
{
    struct communicator *const k = e->call->comm;

    k->scratch.taken = 0; /* by a call that an operation of the user's has left, for good */
    e->comm = k->private;
    e->problem.alpha = k->link.alpha; /* agreed since the problem was made */
    e->problem.beta = k->link.beta;
    e->problem.nodes = k->nodes;
    e->own_first = k->inter && !k->first_group ? k->remote_size : 0;
    e->remote_first = k->inter && k->first_group ? k->size : 0;
    e->tag = 1 + (int)(e->call->sequence % 16384);
    if (!has_memory(e)) {
        e->call->candidate = NATIVE;
        return false;
    }
    if (!schedule_prepare(e->algorithm, &e->context, &e->problem, k->rank)) {
        execution_note(e, MPI_ERR_NO_MEM); /* not even the reserve has any */
        return true;
    }
    e->called_off = e->own_differs && may_be_called_off(e);
    stage_begin(e);
    execute(e);
    if (e->own_differs && !e->called_off && longer_than_expected(e))
        execution_note(e, MPI_ERR_TRUNCATE);
    stage_end(e);
    schedule_free(&e->context);
    scratch_give_back(k);
    return !e->called_off;
}

/* An operation that is not switched, but whose statistics are wanted: when the library has accepted
 * its arguments, as a call that it refuses has taken part in nothing. */
static void watch(struct call *c)
{
    struct communicator *const k = c->comm;
    struct execution e = {.call = c};

    e.problem = (struct problem){.size = k->size,
                                 .remote_size = k->inter ? k->remote_size : 0,
                                 .root = c->root,
                                 .alpha = link_of(k)->alpha,
                                 .beta = link_of(k)->beta};
    struct key *const key = key_find(k, key_hash(&e), c->sequence);

    if (key != NULL)
        auto_watch(&e, key);
}

/* True: the call has run on one of our algorithms, with this result. */
bool switch_run(struct call *c, const struct arguments *given, int *error)
{
    struct arguments as_in_c;
    const struct arguments *const a = &as_in_c;
    struct execution e = {
        .call = c, .arguments = a, .type = MPI_BYTE, .unit = 1, .extent = 1, .solid = true};
    struct communicator *const k = c->comm;
    const char *label = NULL;

    if (k == NULL)
        return false;
    if (c->enter_ns == 0) /* a call that is not recorded */
        c->enter_ns = now_ns();
    if (!k->agreed || k->size + k->remote_size < 2)
        return false;
    if (!switched[c->operation][k->inter]) {
        c->inside = c->watched = auto_takes(c);
        if (c->inside)
            room_enter(k);
        return false;
    }
    as_in_c = *given;
    as_in_c.sendbuf = argument_buffer(given, given->sendbuf);
    as_in_c.recvbuf = argument_buffer(given, given->recvbuf);
    if ((k->inter && c->root != ROOT_NONE) || !arguments_valid(c, a))
        return false;
    e.reduces = is_reduction(c->operation);
    if (!problem_of(&e) || known_bytes(&e) == 0)
        return false;
    if (e.reduces) {
        const struct type_facts f = type_facts(argument_type(a, a->send.type, 0));
        const int64_t stride = f.extent < 0 ? -f.extent : f.extent;

        /* In scratch, elements that lie between each other would collide. In a reduction the type
         * is the same on all members. */
        if (f.true_extent > stride)
            return false;
        e.type = argument_type(a, a->send.type, 0);
        e.op = argument_op(a);
        e.unit = e.problem.unit = f.size;
        e.extent = f.extent;
        e.lower = f.true_lower;
        e.span = f.true_extent;
        e.solid = f.true_extent == f.size;
    }
    c->inside = true;
    room_enter(k);
    e.algorithm = choose(&e, &label);
    if (e.algorithm == NULL || !private_ready(k, c->handle) || (e.reduces && !may_reduce(k)))
        return false;
    e.own_differs = own_sizes_differ(c, a);
    c->running = true;
    const bool ran = run(&e);

    c->running = false;
    if (!ran)
        return false;
    c->algorithm = label;
    atomic_fetch_add(&switched_calls, 1);
    *error = e.error;
    if (*error != MPI_SUCCESS) /* the user's handler is asked, as the library would have */
        pmpi.Comm_call_errhandler(c->handle, *error);
    return true;
}

/* The last thing in a call. */
void switch_end(struct call *c)
{
    if (c->watched && !c->refused)
        watch(c);
    if (c->key != NULL)
        auto_end(c);
    room_exit(c->comm);
}
