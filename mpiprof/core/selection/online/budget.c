/* Budget of the selector: the time that probing may lose, and the start of a key's first window.
 *
 * Probing may lose 1/50 of the process's time in collectives, plus one native instance for each of
 * its first MOST_GRANTS keys. probe.c limits the loss of each key. The first window starts when its
 * setup costs little compared with the elapsed time.
 *
 * Threads: the ledger belongs to the process. All its variables are atomic.
 */
#include "executor/private_comm.h"
#include "selection/online/selection.h"

enum { MOST_GRANTS = 3 };

/* ---- the ledger */

static _Atomic int64_t spent_ns, lost_ns, granted_ns;
static _Atomic int grants;

int64_t budget_left(void)
{
    return atomic_load(&spent_ns) / LOSS_SHARE + atomic_load(&granted_ns) - atomic_load(&lost_ns);
}

void budget_start(void)
{
    atomic_store(&spent_ns, 0);
    atomic_store(&lost_ns, 0);
    atomic_store(&granted_ns, 0);
    atomic_store(&grants, 0);
}

void budget_add_time(int64_t ns)
{
    atomic_fetch_add(&spent_ns, ns);
}

void budget_add_loss(int64_t ns)
{
    atomic_fetch_add(&lost_ns, ns);
}

void budget_grant(int64_t ns)
{
    if (atomic_fetch_add(&grants, 1) < MOST_GRANTS)
        atomic_fetch_add(&granted_ns, ns);
}

/* ---- the first window */

/* Return the time in ns of one small reduction or gather, by the link parameters of MPI_Init. */
static double tree_ns(const struct problem *p)
{
    return p->alpha * log2_ceiling(p->size + p->remote_size);
}

/* Return the number of instances before the first window. The setup (two windows, and the private
 * communicator unless it exists) may take about 6 % of the time so far, at each_ns per instance.
 * Without a measurement, both times follow from the link parameters of MPI_Init. */
int budget_gap(const struct communicator *k, const struct problem *p, double each_ns)
{
    enum { SETUP_SHARE = 16, WINDOW_TREES = 2, PRIVATE_TREES = 8, MOST = 100000 };
    const int trees = private_of(k)->requested ? WINDOW_TREES : PRIVATE_TREES;
    const double wanted = SETUP_SHARE * trees * tree_ns(p) / each_ns;

    return wanted < MOST ? (int)wanted : MOST;
}

/* Return the minimum time of an instance in ns, from facts that all members know. */
double budget_least_time(const struct execution *e)
{
    const int64_t bytes = problem_bytes(e);

    return tree_ns(&e->problem) +
           machine_message_ns(private_comm_link(e->call->comm), bytes > 0 ? (double)bytes : 0);
}
