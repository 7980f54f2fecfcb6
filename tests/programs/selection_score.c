/* Computes the statistics (core/selection/online/arrival.c) of instances with given arrivals and
 * exits, without MPI.
 *
 *     selection_score OPERATION FIRST SECOND ROOT ARRIVAL EXIT ...
 *
 * FIRST and SECOND: group sizes of an inter-communicator, or SECOND 0. For each instance, one
 * arrival and one exit per member, in ns. Prints each instance's score, the sum of its waiting
 * times, and the mean exit after the last arrival.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/operation.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "selection/online/arrival.h"
#include "timing/timing.h"

enum { MOST = 64 };

struct pmpi pmpi;
static struct arrivals *all[MOST];
static int members;

int64_t clock_to_common(int64_t ns)
{
    return ns;
}

/* Replace the reductions of sum_max_reduce.c: the last member's call computes all results. */
static void join(const struct sum_max *mine, struct sum_max *joined, int count, bool scans)
{
    static const struct sum_max *given[2][MOST];
    static struct sum_max *taken[2][MOST];
    static int in[2];

    given[scans][in[scans]] = mine;
    taken[scans][in[scans]++] = joined;
    if (in[scans] < members)
        return;
    in[scans] = 0;
    for (int m = 0; m < members; m++)
        for (int i = 0; i < count; i++) {
            struct sum_max sum = given[scans][0][i];

            for (int other = 1; other < (scans ? m + 1 : members); other++) {
                const struct sum_max o = given[scans][other][i];

                sum = (struct sum_max){sum.sum + o.sum, o.most > sum.most ? o.most : sum.most};
            }
            taken[scans][m][i] = sum;
        }
}

void sum_max_reduce_start(const struct sum_max *mine, struct sum_max *joined, int count, bool scans,
                          MPI_Comm comm, MPI_Request *request)
{
    (void)comm;
    *request = MPI_REQUEST_NULL;
    join(mine, joined, count, scans);
}

int main(int argc, char **argv)
{
    if (argc < 7)
        return 2;
    const int first = atoi(argv[2]), root = atoi(argv[4]);
    const char *const names[] = {OPERATION_NAMES};
    int operation = 0;

    while (strcmp(names[operation], argv[1]) != 0)
        operation++;
    members = first + atoi(argv[3]);
    const int instances = (argc - 5) / 2 / members;

    for (int m = 0; m < members; m++) {
        const struct membership own = {
            .members = members, .member = m, .root = m == root, .second = m >= first};

        all[m] = arrivals_make(operation_wait_rule(operation), &own, instances);
        for (int i = 0; i < instances; i++) {
            char **const words = argv + 5 + 2 * (i * members + m);

            arrivals_note(all[m],
                          &(struct moment){.arrival = atoll(words[0]), .exit = atoll(words[1])});
        }
    }
    for (int m = 0; m < members; m++)
        arrivals_begin(all[m], MPI_COMM_NULL);
    while (all[0]->stage > 0)
        for (int m = 0; m < members; m++)
            arrivals_step(all[m], MPI_COMM_NULL);
    for (int i = 0; i < instances; i++)
        printf("%lld %lld %lld\n", (long long)all[0]->results[i].score,
               (long long)all[0]->results[i].wait, (long long)all[0]->results[i].after);
    return 0;
}
