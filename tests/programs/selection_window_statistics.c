/* Computes the statistics of a window (core/selection/online/arrival.c) of MEMBERS members, without
 * MPI. Half of the members arrive at EARLY and leave at LATE; the other half arrive at LATE. Times
 * are in ns.
 *
 *     selection_window_statistics MEMBERS EARLY LATE
 *
 * Prints the mean and the worst deviation, the mean time inside, the mean score and the sum of the
 * waiting times.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/pmpi.h"
#include "base/recorder.h"
#include "selection/online/arrival.h"
#include "timing/timing.h"

struct pmpi pmpi;

int64_t clock_to_common(int64_t ns)
{
    return ns;
}

void recorder_lock(void)
{
}

void recorder_unlock(void)
{
}

static int64_t members;
static struct arrivals *both[2];
static int reductions;

/* Reduces like sum_max_reduce.c, over half of the members that are like the one, and half like the
 * other. */
void sum_max_reduce_start(const struct sum_max *mine, struct sum_max *all, int count, bool scans,
                          MPI_Comm comm, MPI_Request *request)
{
    (void)comm;
    (void)mine;
    (void)scans; /* none of these is a scan */
    *request = MPI_REQUEST_NULL;
    if (++reductions % 2 != 0) /* of the first of them: the other's pairs are not there yet */
        return;
    for (int i = 0; i < count; i++) {
        const struct sum_max a = both[0]->input[i], b = both[1]->input[i];
        struct sum_max sum = {0, a.most > b.most ? a.most : b.most};

        sum.sum = (int64_t)((uint64_t)(members / 2) * ((uint64_t)a.sum + (uint64_t)b.sum));
        both[0]->output[i] = both[1]->output[i] = sum;
    }
    (void)all;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    members = atoll(argv[1]);
    const int64_t early = atoll(argv[2]), late = atoll(argv[3]);
    const struct moment moments[] = {{.arrival = early, .exit = late},
                                     {.arrival = late, .exit = late}};
    const struct sample *found;

    for (int i = 0; i < 2; i++) {
        both[i] = arrivals_make(WAIT_ALL_FOR_ALL,
                                &(struct membership){.members = (int)members, .member = i}, 1);
        arrivals_note(both[i], &moments[i]);
    }
    for (int i = 0; i < 2; i++)
        arrivals_begin(both[i], MPI_COMM_NULL);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 2; i++)
            arrivals_step(both[i], MPI_COMM_NULL);
    found = &both[0]->results[0];
    printf("%lld %lld %lld %lld %lld\n", (long long)found->average, (long long)found->worst,
           (long long)found->elapsed, (long long)found->score, (long long)found->wait);
    return 0;
}
