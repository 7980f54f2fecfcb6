/* Prints the predicted times of the all-to-all algorithms (core/selection/online/candidates.c),
 * without MPI: selection_predict MEMBERS BYTES ALPHA_NS NS_PER_BYTE.
 *
 * A line for each pattern of arrivals: balanced, imbalanced, late. The columns are the algorithms of
 * the catalogue, each as NAME=NS for rank 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mpi_types.h"
#include "executor/execution.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"
#include "record/call.h"
#include "schedule/algorithms/catalogue.h"
#include "selection/online/selection.h"

struct entry { /* with its state, as in comm.c */
    struct communicator k;
    struct comm_state state;
};

/* ---- functions that candidates.c calls only in a running program */

const char *const operation_names[OP_COUNT] = {OPERATION_NAMES};
struct link machine_link;
const struct library_algorithm mpi_t_algorithms[1];
const int mpi_t_algorithm_count = 0;

double machine_message_ns(const struct link *l, double bytes)
{
    return l->beta * bytes;
}

bool library_algorithm_applies(const struct library_algorithm *a, int64_t segment,
                               const struct execution *e)
{
    (void)a;
    (void)segment;
    (void)e;
    return false;
}

bool library_algorithm_known(const struct communicator *k, const struct library_algorithm *a,
                             int64_t segment)
{
    (void)k;
    (void)a;
    (void)segment;
    return false;
}

int64_t pack_buffer_scratch_bytes(const struct algorithm *a, const struct execution *e)
{
    (void)a;
    (void)e;
    return 0;
}

const char *predefined_reduction(MPI_Op op)
{
    (void)op;
    return NULL;
}

int64_t problem_sum(const struct problem *p)
{
    (void)p;
    return 0;
}

bool scratch_fits(const struct communicator *k, int64_t bytes)
{
    (void)k;
    (void)bytes;
    return true;
}

void scratch_note_omitted(const struct communicator *k, const struct algorithm *a, int64_t bytes)
{
    (void)k;
    (void)a;
    (void)bytes;
}

void variant_apply(const struct variant *v, struct problem *p)
{
    (void)v;
    (void)p;
}

const char *variant_label(const char *name, const struct variant *v)
{
    (void)v;
    return name;
}

bool variant_same(const struct variant *a, const struct variant *b)
{
    return a->algorithm == b->algorithm;
}

int main(int argc, char **argv)
{
    static struct entry entry;
    static struct candidate list[MOST_LIST];
    static struct call call = {.operation = OP_alltoall, .comm = &entry.k, .root = ROOT_NONE};
    struct execution e = {.call = &call};

    if (argc < 5)
        return 1;
    entry.k.size = e.problem.size = atoi(argv[1]);
    e.problem.bytes = atoll(argv[2]);
    e.problem.unit = 1;
    e.problem.alpha = machine_link.alpha = atof(argv[3]);
    e.problem.beta = machine_link.beta = atof(argv[4]);
    const int count = candidates_list(list, &e);

    for (int pattern = ARRIVALS_BALANCED; pattern <= ARRIVALS_LATE; pattern++) {
        for (int i = 1; i < count; i++)
            printf("%s=%lld ", list[i].variant.label,
                   (long long)candidate_predicted(&list[i], &e, (enum arrival_pattern)pattern));
        printf("\n");
    }
    return 0;
}
