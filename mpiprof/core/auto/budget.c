/* What choosing may cost: how much probing may lose, and how early a key's first window comes.
 *
 * Probing may lose a fiftieth of the process's time in collectives, and one of the library's own
 * instances for each of its first keys; what a key may lose of its own time is in probe.c. The
 * first window waits until what it takes to set up is little beside the time so far.
 *
 * Threads: the ledger is the process's: atomic.
 */
#include "auto/budget.h"
#include "machine/machine.h"
#include "record/comm.h"
#include "run/execution.h"
#include "run/private.h"
#include "run/problem.h"
#include "schedule/schedule.h"

enum { MOST_GRANTS = 3 };

/* ---- the ledger */

static _Atomic int64_t spent_ns, lost_ns, granted_ns;
static _Atomic int grants;

int64_t budget_left(void)
{
    return atomic_load(&spent_ns) / LOSS_SHARE + atomic_load(&granted_ns) - atomic_load(&lost_ns);
}

void budget_open(void)
{
    atomic_store(&spent_ns, 0);
    atomic_store(&lost_ns, 0);
    atomic_store(&granted_ns, 0);
    atomic_store(&grants, 0);
}

void budget_spend(int64_t ns)
{
    atomic_fetch_add(&spent_ns, ns);
}

void budget_lose(int64_t ns)
{
    atomic_fetch_add(&lost_ns, ns);
}

void budget_grant(int64_t ns)
{
    if (atomic_fetch_add(&grants, 1) < MOST_GRANTS)
        atomic_fetch_add(&granted_ns, ns);
}

/* ---- the first window */

/* Instances before the first window, so that setting it up (two windows, and the communicator
 * unless another key has had it made) takes no more than about 6 % of the time so far, if each
 * takes so long. Both are worked out from the link that MPI_Init has measured, where that is all
 * there is. */
int budget_gap(const struct communicator *k, const struct problem *p, double each_ns)
{
    enum { SETUP_SHARE = 16, WINDOW_TREES = 2, MOST = 100000 };
    const int trees = k->private_tried ? WINDOW_TREES : PRIVATE_TREES;
    const double wanted = SETUP_SHARE * trees * tree_ns(p) / each_ns;

    return wanted < MOST ? (int)wanted : MOST;
}

/* How long an instance takes at least, from what all members know alone: the link and the sizes. */
double budget_least_time(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    double bytes = problem_is_known(e) ? (double)(p->bytes + p->remote_bytes) : 0;

    for (int i = 0; problem_is_known(e) && p->counts != NULL && i < p->size; i++)
        bytes += (double)p->counts[i];
    return tree_ns(p) + machine_passing(link_of(e->call->comm), bytes);
}
