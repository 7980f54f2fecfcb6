/* Calls that run on a library algorithm by request.
 *
 *   MPICH       the program's call on its communicator, between two writes of the library's
 *               control variables
 *   Open MPI    the same call on a duplicate that was created with the variables set
 *               (algorithm_comms.c); errors are raised on the program's communicator
 *
 * All members know the deciding facts: processes, bytes, elements of a reduction, and their
 * agreement on `obstacle` with the private communicator.
 *
 * In a broadcast, members may have different types and counts, by which the libraries would split
 * it. So it runs as a broadcast of bytes, and data with gaps is packed.
 *
 * Under Open MPI, MPI_IN_PLACE affects only the recorded algorithm, because members of one call
 * must not use different communicators. Reductions with user-defined operations stay with the
 * library, because it is untested which algorithms keep the order of ranks.
 *
 * An algorithm that the library would refuse or replace is never requested
 * (library_algorithm_applies).
 */
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "base/mpi_types.h"
#include "base/pmpi.h"
#include "executor/execution.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"

atomic_int library_algorithm_obstacles[OBSTACLES];

static bool note_obstacle(const struct communicator *k, enum obstacle why)
{
    if (comm_is_leader(k))
        atomic_fetch_add(&library_algorithm_obstacles[why], 1);
    return false;
}

/* ---- applicability, from facts that all members know */

static int64_t elements_of(const struct execution *e)
{
    return e->problem.bytes / e->element.unit; /* bytes, for a broadcast */
}

static bool need_is_met(enum need need, const struct execution *e)
{
    const struct problem *const p = &e->problem;
    const int size = p->size;
    int power = 1;

    while (power <= size / 2)
        power *= 2;
    switch (need) {
    case NEED_pow2: return size == power;
    case NEED_even: return size % 2 == 0;
    case NEED_two: return size == 2;
    case NEED_elements: return elements_of(e) >= size;
    case NEED_half_elements: return elements_of(e) >= power;
    case NEED_regular: return p->counts == NULL || problem_largest(p) * size == problem_sum(p);
    case NEED_parent:
    case NEED_consecutive: return false;
    /* MPI_IN_PLACE is checked in library_algorithm_begin; predefined operations commute */
    default: return true;
    }
}

/* Return false if Open MPI would replace the algorithm because there are too few segments. */
static bool has_segments(const struct library_algorithm *a, int64_t segment,
                         const struct execution *e)
{
    const int64_t elements = elements_of(e), half = elements / 2;

    if (segment > 0 && !a->segmented)
        return false;
    if (strcmp(a->name, "split_binary_tree") == 0)
        return half > 0 && segment <= half * e->element.unit;
    if (strcmp(a->name, "segmented_ring") == 0)
        return segment >= e->element.unit && segment < e->problem.bytes &&
               elements >= e->problem.size * (segment / e->element.unit);
    return true;
}

bool library_algorithm_applies(const struct library_algorithm *a, int64_t segment,
                               const struct execution *e)
{
    const struct communicator *const k = e->call->comm;

    if (a->operation != e->call->operation || k->inter)
        return false;
    if (e->reduces && (predefined_reduction(e->element.op) == NULL || !private_comm_may_reduce(k)))
        return false;
    if (a->operation == OP_bcast && e->problem.bytes > INT_MAX)
        return false;
    for (int need = 0; need < NEEDS; need++)
        if (a->needs >> need & 1 && !need_is_met((enum need)need, e))
            return false;
    return has_segments(a, segment, e);
}

/* Return true if all members agreed that they can request the algorithm. */
bool library_algorithm_known(const struct communicator *k, const struct library_algorithm *a,
                             int64_t segment)
{
    return private_comm_exists(k) && private_of(k)->obstacle == OBSTACLE_NONE &&
           mpi_t_algorithm_has(a->operation, segment > 0);
}

/* Create the required resources in advance. Collective. Returns false if this fails. */
bool library_algorithm_prepare(struct communicator *k, const struct library_algorithm *a,
                               int64_t segment)
{
    if (!library_algorithm_known(k, a, segment))
        return false;
#ifdef MPIPROF_ABI_openmpi
    return algorithm_comm_ready(k, a->number, segment) != MPI_COMM_NULL;
#else
    return true;
#endif
}

/* Return true if all members can run the algorithm now. The private communicator must exist. */
bool library_algorithm_ready(struct execution *e, const struct library_algorithm *a,
                             int64_t segment)
{
    struct communicator *const k = e->call->comm;

    if (private_of(k)->obstacle != OBSTACLE_NONE)
        return note_obstacle(k, (enum obstacle)private_of(k)->obstacle);
    if (!mpi_t_algorithm_has(a->operation, segment > 0))
        return note_obstacle(k, OBSTACLE_FIXED);
#ifdef MPIPROF_ABI_openmpi
    e->call->library_comm = algorithm_comm_ready(k, a->number, segment);
    if (e->call->library_comm == MPI_COMM_NULL)
        return note_obstacle(k, OBSTACLE_DUPLICATE);
#endif
    e->library_algorithm = a;
    e->segment = segment;
    return true;
}

/* ---- one call */

/* Return false if the library uses another algorithm because of MPI_IN_PLACE. */
static bool runs_as_named(const struct execution *e)
{
    const bool in_place = argument_in_place(e->arguments, e->arguments->sendbuf);
    const int operation = e->call->operation;
    const enum need excluding = in_place ? NEED_not_in_place : NEED_in_place;

    if (ALGORITHM_NEEDS_COMM)
        return !in_place || (operation != OP_alltoall && operation != OP_alltoallv);
    return (e->library_algorithm->needs >> excluding & 1) == 0;
}

/* Returns false if the call must run on the library's default. */
bool library_algorithm_begin(struct execution *e, const char *label)
{
    struct call *const c = e->call;
    const bool named = runs_as_named(e);

#ifndef MPIPROF_ABI_openmpi
    if (!named)
        return false;
    if (!mpi_t_algorithm_set(c->operation, e->library_algorithm->number))
        return note_obstacle(c->comm, OBSTACLE_PROGRAM);
#endif
    c->library_algorithm = e->library_algorithm;
    c->algorithm = named ? label : NULL;
    return true;
}

/* Run a broadcast as one of bytes. A rank without memory for packing passes its arguments, which
 * describe the same bytes. */
int library_algorithm_bcast(struct execution *e)
{
    const struct call *const c = e->call;
    const struct arguments *const a = e->arguments;
    const struct blocks b = {.base = execution_writable(a->sendbuf), .count = 1, .side = &a->send};
    const MPI_Comm comm = library_algorithm_comm(c, c->handle);
    const bool root = c->root == c->comm->rank, direct = block_layout_is_direct(e, &b);
    const int bytes = (int)e->problem.bytes;
    char *const data = direct ? b.base : memory_allocate((size_t)bytes);

    if (!direct && data == NULL)
        return pmpi.Bcast(b.base, (int)argument_count(a, a->send.count, 0),
                          argument_type(a, a->send.type, 0), c->root, comm);
    if (!direct && root)
        block_layout_move(e, &b, data, true);
    execution_note_error(e, pmpi.Bcast(data, bytes, MPI_BYTE, c->root, comm));
    if (!direct && !root && e->error == MPI_SUCCESS)
        block_layout_move(e, &b, data, false);
    if (!direct)
        memory_free(data);
    return e->error;
}

/* Complete the call after the native routine. Returns the program's error code. */
int library_algorithm_end(struct call *c, int error)
{
    library_algorithm_restore();
    if (error != MPI_SUCCESS &&
        c->library_comm != MPI_COMM_NULL) /* this communicator returns its errors */
        pmpi.Comm_call_errhandler(c->handle, error);
    return error;
}

/* Restore the library's control variables when no requested call is active. Those of Open MPI are
 * restored as soon as the duplicate exists. */
void library_algorithm_restore(void)
{
    if (!ALGORITHM_NEEDS_COMM)
        mpi_t_algorithm_restore();
}

MPI_Fint *library_algorithm_fortran(struct call *c, MPI_Fint *comm)
{
    if (!ALGORITHM_NEEDS_COMM || c->library_algorithm == NULL)
        return comm;
    c->library_comm_fortran = pmpi.Comm_c2f(c->library_comm);
    return &c->library_comm_fortran;
}
