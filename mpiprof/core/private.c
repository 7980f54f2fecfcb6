/* The private communicator that switched calls run on, one for each of the user's that has them.
 *
 * Made in the first switched call, a blocking collective of all its members, at a point that all
 * compute alike; never at creation, and never in a Wait or Test. By Comm_split, as Comm_dup would
 * run the user's attribute callbacks. That it could be made is agreed by a reduction on the user's
 * communicator; where it fails (MPICH has 2043 in all) that communicator stays native.
 */
#include <stdlib.h>

#include "switch.h"

static _Atomic uint64_t refused; /* communicators, counted by their rank 0 */

uint64_t private_refused(void)
{
    return atomic_load(&refused);
}

static int agreed(MPI_Comm comm, struct communicator *k, bool made)
{
    double mine = made, all = 0;
    const int64_t begin = now_ns();

    if (pmpi.Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS)
        return 0;
    k->message_ns = 1 + (now_ns() - begin) / (1 + log2_ceiling(k->size + k->remote_size));
    if (!k->inter)
        return all == k->size;
    mine = made && all == k->remote_size; /* the other group's; now ours reaches them */
    if (pmpi.Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS)
        return 0;
    return mine > 0 && all == k->remote_size;
}

/* The least of a value over all members; 0: it can't be told. On the user's communicator, in an
 * operation that keeps all members together in any case. */
int64_t private_least(const struct communicator *k, MPI_Comm comm, int64_t value)
{
    int64_t mine = -value, there = 0, here = 0;
    MPI_Errhandler users;
    const bool asked = pmpi.Comm_get_errhandler(comm, &users) == MPI_SUCCESS;

    pmpi.Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int error = pmpi.Allreduce(&mine, &there, 1, MPI_INT64_T, MPI_MAX, comm);

    here = there;
    if (error == MPI_SUCCESS && k->inter) /* the other group's; now ours comes back */
        error = pmpi.Allreduce(&there, &here, 1, MPI_INT64_T, MPI_MAX, comm);
    if (asked) {
        pmpi.Comm_set_errhandler(comm, users);
        pmpi.Errhandler_free(&users);
    }
    return error != MPI_SUCCESS ? 0 : -(here > there ? here : there);
}

/* The node of each member, for orders of a ring; called by all members of the new communicator. */
static int *nodes_of(const struct communicator *k)
{
    const uint64_t mine = clock_node_hash();
    uint64_t *const found = malloc(2 * sizeof mine * (size_t)k->size);
    uint64_t *const different = found + k->size;
    int *const nodes = malloc(sizeof *nodes * (size_t)k->size);
    int count = 0;

    if (found == NULL || nodes == NULL)
        abort(); /* 20 bytes a member: MPI itself could not go on */
    pmpi.Allgather(&mine, sizeof mine, MPI_BYTE, found, sizeof mine, MPI_BYTE, k->private);
    for (int i = 0; i < k->size; i++) {
        nodes[i] = 0;
        while (nodes[i] < count && different[nodes[i]] != found[i])
            nodes[i]++;
        if (nodes[i] == count)
            different[count++] = found[i];
    }
    free(found);
    return nodes;
}

bool private_ready(struct communicator *k, MPI_Comm comm)
{
    MPI_Comm made = MPI_COMM_NULL;

    if (k->private_tried)
        return k->private != MPI_COMM_NULL;
    const int64_t begin = now_ns();

    k->private_tried = true;
    k->private = MPI_COMM_NULL;
    /* A failure must not reach the program: the user's handler may end the job. */
    MPI_Errhandler users;
    const bool asked = pmpi.Comm_get_errhandler(comm, &users) == MPI_SUCCESS;

    pmpi.Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const int error = k->inter ? pmpi.Intercomm_merge(comm, !k->first_group, &made)
                               : pmpi.Comm_split(comm, 0, k->rank, &made);
    const bool mine = error == MPI_SUCCESS && made != MPI_COMM_NULL;

    if (mine)
        pmpi.Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    if (agreed(comm, k, mine))
        k->private = made;
    else if (mine)
        pmpi.Comm_free(&made);
    if (asked) {
        pmpi.Comm_set_errhandler(comm, users);
        pmpi.Errhandler_free(&users);
    }
    if (k->private == MPI_COMM_NULL && communicator_leads(k))
        atomic_fetch_add(&refused, 1);
    if (k->private != MPI_COMM_NULL && !k->inter)
        k->nodes = nodes_of(k);
    k->private_ns = now_ns() - begin;
    return k->private != MPI_COMM_NULL;
}

/* The user's communicator has been freed by all its members: so is ours. */
void select_forget(struct communicator *c)
{
    if (!c->private_tried)
        c->private = MPI_COMM_NULL;
    keys_free(c);
    c->private = MPI_COMM_NULL;
    free(c->nodes);
    c->nodes = NULL;
}
