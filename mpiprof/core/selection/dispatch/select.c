/* Execution of calls on selected algorithms, and the steps before and after (choice.c makes the
 * choice).
 *
 * A call that fails mpiprof's argument check goes to the library, and has taken part in nothing.
 */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mpi_types.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/execution.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"
#include "selection/dispatch/select.h"
#include "selection/online/key.h"
#include "selection/rules/rules.h"

static _Atomic int switched_calls; /* since the last mpiprof_study_choose */
static pthread_key_t thread_key;
static _Thread_local bool releases; /* when the thread ends */

/* ---- start and end */

/* Release the memory that the thread reuses between calls. */
static void thread_release(void *unused)
{
    (void)unused;
    problem_forget();
    execute_release();
    releases = false;
}

static void switching_start(void)
{
    struct link *const l = &machine_link;

    if (recorder.options.model != NULL)
        text_scan(recorder.options.model, "%lf %lf %lf %lf", &l->alpha, &l->beta, &l->pace,
                  &l->buffer);
    pthread_key_create(&thread_key, thread_release);
    problem_start();
    argument_check_start();
    recorder.switching = true;
}

/* Return the reason why no process of the job can select algorithms, or NULL. */
static const char *selection_obstacle(void)
{
    if (!pmpi.can_switch)
        return "this MPI library is too old";
    if (!memory_reserve_exists)
        return "there is not enough memory";
    if (!recorder.agreed && !recorder.sessions)
        return "the ranks have different options or different versions of mpiprof";
    if (pmpi_survives_failures())
        return "the MPI library is configured to survive failures of processes, but an algorithm "
               "of mpiprof would not";
    return NULL;
}

/* Report a tool below this library, which sees only the calls that run natively. */
static void report_tool_below(void)
{
    for (int operation = 0; operation < OP_COLLECTIVES; operation++) {
        char name[64];

        if (operation_form(operation) != 0)
            continue;
        snprintf(name, sizeof name, "MPI_%s", operation_names[operation]);
        name[4] = (char)toupper((unsigned char)name[4]);
        const char *const tool = symbol_lookup_tool_below(name);

        if (tool != NULL) {
            recorder_print("%s also intercepts %s, but it does not see the calls that --switch "
                           "runs on other algorithms: for its complete results, omit --switch",
                           tool, name);
            return;
        }
    }
}

void select_start(void)
{
    const char *const text = recorder.options.rules;
    const bool chooses = recorder.options.chooses, collects = chooses || recorder.options.totals;

    if (*text == '\0' && !collects)
        return;
    const char *const obstacle = selection_obstacle();

    if (obstacle != NULL) {
        if (recorder.rank == 0)
            recorder_print("no algorithm is selected, and no arrival statistics are computed: %s",
                           obstacle);
        return;
    }
    bool random_own;
    const bool random = choice_is_random(text, &random_own);
    const bool asks_robust = strcmp(text, "robust") == 0, robust = asks_robust && !collects;

    if (asks_robust && collects && recorder.rank == 0)
        recorder_print("--switch robust has no effect beside --switch auto or statistics of "
                       "arrivals (--record summary or ring, --summary-to): leave them out");
    if (!random && !robust && rules_read(text) == 0 && !collects)
        return;
    switching_start();
    if (recorder.rank == 0 && (chooses || *text != '\0'))
        report_tool_below();
    const char *const requested = rules_first_library_algorithm();

    if (random_own || chooses || requested != NULL)
        mpi_t_algorithm_start();
    if (requested != NULL && mpi_t_algorithm_obstacle() == OBSTACLE_INTERFACE && recorder.rank == 0)
        recorder_print("--switch %s: this MPI library has no selectable algorithms (MPICH 5.0 and "
                       "Open MPI 5.0 have), so these items are ignored",
                       requested);
    if ((collects || robust) && !random)
        auto_start(chooses || robust, robust);
}

/* Select algorithms only by this rule, for `bench`. "" means native; "auto" and "robust" start
 * online selection; "auto again" and "robust again" continue it. All ranks must call this with the
 * same rule, between collectives, from one thread. Returns the number of calls on selected
 * algorithms since the last call, or -1 on failure. */
PUBLIC int mpiprof_study_choose(const char *rule)
{
    const bool robust = strcmp(rule, "robust") == 0 || strcmp(rule, "robust again") == 0;
    const bool begins = strcmp(rule, "auto") == 0 || strcmp(rule, "robust") == 0;
    const bool chooses = robust || begins || strcmp(rule, "auto again") == 0;

    if (!atomic_load(&recorder.active) || !pmpi.can_switch || !rules_replace(chooses ? "" : rule))
        return -1;
    if (!recorder.switching)
        switching_start();
    mpi_t_algorithm_start();
    auto_chooses = chooses && !robust;
    auto_is_robust = robust;
    if (begins) {
        keys_discard();
        auto_start(true, robust);
    }
    return atomic_exchange(&switched_calls, 0);
}

/* Finish selection in MPI_Finalize, on all ranks. */
void select_end(void)
{
    if (!recorder.switching)
        return;
    keys_finalize();
    diagnostics_end();
    argument_check_end();
    mpi_t_algorithm_end();
}

/* ---- a call */

/* Return true if all members depend on this rank's data, so that all detect that it calls the
 * operation off. An empty block causes no message. */
static bool may_be_called_off(const struct execution *e)
{
    const struct problem *const p = &e->problem;

    if (e->call->operation == OP_allgatherv)
        return p->counts[e->call->comm->rank] > 0;
    for (int i = 0; e->call->operation == OP_alltoallv && i < p->size; i++)
        if (p->counts[i] == 0 || p->remote_counts[i] == 0)
            return false;
    return e->call->root == ROOT_NONE;
}

/* Return true if this rank's message to itself is truncated. The library sends a root's. */
static bool longer_than_expected(const struct execution *e)
{
    struct self_message_sides own;

    return e->call->root == ROOT_NONE && self_message_sides(e->call, e->arguments, &own) &&
           self_message_block_bytes(&own.sent) > self_message_block_bytes(&own.received);
}

/* Return true if all members have the memory. On an inter-communicator this also exchanges the
 * counts of the local group. */
static bool has_memory(struct execution *e)
{
    struct communicator *const k = e->call->comm;
    const int most = k->size > k->remote_size ? k->size : k->remote_size;

    if (e->algorithm->needs_counts) {
        if (!scratch_ensure(k, most * (int64_t)sizeof(int64_t)))
            return false;
        execute_counts(e, problem_counts(0, k->size), (int64_t *)scratch_of(k)->bytes);
    }
    return pack_buffer_has_memory(e);
}

/* Run the schedule. Returns false on all members if the call must run natively, because a member
 * lacks memory or has called the operation off. */
static bool schedule_run(struct execution *e)
{
    struct communicator *const k = e->call->comm;
    const struct private_comm *const private = private_of(k);
    const bool broadcasts = e->algorithm->opening != NULL;

    e->route.comm = private->comm;
    e->problem.alpha = private->link.alpha; /* agreed after the problem was created */
    e->problem.beta = link_byte_ns(&private->link);
    e->problem.nodes = private->nodes;
    e->route.own_first = k->inter && !k->first_group ? k->remote_size : 0;
    e->route.remote_first = k->inter && k->first_group ? k->size : 0;
    e->route.tag = 1 + (int)(e->call->blocking % BCAST_TAGS);
    scratch_ensure_first(k);
    if (broadcasts)
        bcast_size_agreement_begin(e);
    do {
        scratch_of(k)->used = 0; /* by a call that a user-defined operation has abandoned */
        if (!has_memory(e)) {
            e->call->candidate = NATIVE;
            return false;
        }
        if (!schedule_prepare(e->algorithm, &e->context, &e->problem, k->rank)) {
            execution_note_error(e, MPI_ERR_NO_MEM); /* the reserve is exhausted */
            return true;
        }
        e->called_off = e->staging.self_sizes_differ && may_be_called_off(e);
        pack_buffer_begin(e);
        execute(e);
    } while (bcast_size_agreement_restarts(e));
    if (e->staging.self_sizes_differ && !e->called_off && longer_than_expected(e))
        execution_note_error(e, MPI_ERR_TRUNCATE);
    if (broadcasts)
        bcast_size_agreement_end(e);
    pack_buffer_end(e);
    schedule_free(&e->context);
    scratch_reset(k);
    return !e->called_off;
}

/* Collect statistics of an operation that keeps the native algorithm. This runs after the library
 * has accepted the arguments, because a rejected call has taken part in nothing. */
static void instance_observe(struct call *c)
{
    struct communicator *const k = c->comm;
    struct execution e = {.call = c,
                          .problem = {.size = k->size,
                                      .remote_size = k->inter ? k->remote_size : 0,
                                      .root = c->root,
                                      .alpha = private_comm_link(k)->alpha,
                                      .beta = link_byte_ns(private_comm_link(k))}};
    struct key *const key = key_find(k, key_hash(&e), c->blocking);

    if (key != NULL)
        auto_observe(&e, key);
}

/* Set the operands of a reduction. Returns false if interleaved elements would overlap in scratch
 * memory. In a reduction all members have the same type. */
static bool fill_operands(struct execution *e)
{
    const struct arguments *const a = e->arguments;
    const MPI_Datatype type = argument_type(a, a->send.type, 0);
    const struct type_properties f = type_properties(type);

    if (f.true_extent > (f.extent < 0 ? -f.extent : f.extent))
        return false;
    e->problem.unit = f.size;
    e->element = (struct element){.type = type,
                                  .op = argument_operation(a),
                                  .unit = f.size,
                                  .extent = f.extent,
                                  .lower = f.true_lower,
                                  .span = f.true_extent,
                                  .solid = f.true_extent == f.size};
    return true;
}

/* Run a requested library algorithm. Returns false if the library's routine must still run. */
static bool library_algorithm_run(struct execution *e, const char *label, int *error)
{
    struct call *const c = e->call;

    e->route.comm = private_of(c->comm)->comm;
    e->route.tag = 1 + (int)(c->blocking % BCAST_TAGS);
    if (!library_algorithm_begin(e, label))
        return false;
    atomic_fetch_add(&switched_calls, 1);
    if (c->operation != OP_bcast)
        return false;
    *error = library_algorithm_end(c, library_algorithm_bcast(e));
    return true;
}

/* Run a call on its selected algorithm. Returns true if it has run, with the result in `error`. */
bool select_run(struct call *c, const struct arguments *given, int *error)
{
    struct arguments as_in_c;
    const struct arguments *const a = &as_in_c;
    struct execution e = {.call = c, .arguments = a, .element = element_byte()};
    struct communicator *const k = c->comm;
    const char *label = NULL;

    library_algorithm_restore(); /* in case the last call was abandoned */
    if (k == NULL)
        return false;
    if (c->enter_ns == 0) /* the call is not recorded */
        c->enter_ns = now_ns();
    if (!k->agreed || k->size + k->remote_size < 2)
        return false;
    if (!problem_is_switched(c)) {
        if (auto_collects(c)) {
            c->state = CALL_OBSERVED;
            private_comm_pool_enter(k);
        }
        return false;
    }
    as_in_c = *given;
    as_in_c.sendbuf = argument_buffer(given, given->sendbuf);
    as_in_c.recvbuf = argument_buffer(given, given->recvbuf);
    if ((k->inter && c->root != ROOT_NONE) || !argument_check_arguments(c, a))
        return false;
    e.reduces = operation_reduces(c->operation);
    if (!releases)
        pthread_setspecific(thread_key, &thread_key); /* anything but NULL */
    releases = true;
    if (!problem_fill(&e) || problem_bytes(&e) == 0 || (e.reduces && !fill_operands(&e)))
        return false;
    c->state = CALL_SELECTED;
    private_comm_pool_enter(k);
    e.algorithm = choice_make(&e, &label);
    if (e.library_algorithm != NULL)
        return library_algorithm_run(&e, label, error);
    if (e.algorithm == NULL || !private_comm_ready(k, c->handle) ||
        (e.reduces && !private_comm_may_reduce(k)))
        return false;
    e.staging.self_sizes_differ = self_message_sizes_differ(c, a);
    c->state = CALL_SCHEDULED;
    const bool ran = schedule_run(&e);

    c->state = CALL_SELECTED;
    if (!ran)
        return false;
    c->algorithm = label;
    atomic_fetch_add(&switched_calls, 1);
    *error = e.error;
    if (*error != MPI_SUCCESS) /* call the user's error handler, as the library would */
        pmpi.Comm_call_errhandler(c->handle, *error);
    return true;
}

/* Finish a call; the last function that a wrapper calls. */
void select_ended(struct call *c, bool observed)
{
    library_algorithm_restore();
    if (observed)
        instance_observe(c);
    if (c->key != NULL && auto_is_robust)
        robust_instance_end(c);
    else if (c->key != NULL)
        auto_end(c);
    private_comm_pool_exit(c->comm);
}
