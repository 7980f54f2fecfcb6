/* Runs the decisions of mpiprof/core/selection/online/robust_routine.c on given times, without MPI.
 *
 *     selection_robust INSTANCES CHANGE UNTIL NOISE_PERCENT SEED TIME[:LATER] ...
 *
 *   TIME    time of each algorithm in us, the library's first; if negative, the library's
 *           algorithm replaces it in one of its probes
 *   LATER   time from instance CHANGE to instance UNTIL
 *
 * Four members take 0.7, 0.9, 1.1 and 1.3 times as long as their mean. The noise is that of
 * selection_decide.c. Prints the algorithm of each instance, the number of probes, the mean time
 * relative to that of the library, and a line for each decision. Fails if two members run different
 * algorithms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selection/online/selection.h"

enum { MEMBERS = 4 };

static struct selection members[MEMBERS];
static struct arrivals windows[MEMBERS];
static double times[2][ROBUST_ALGORITHMS];
static int given;
static uint64_t state;

static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state % 1000000) / 1e6;
}

/* Return the noise of an instance as a factor: jitter, and in 2 % of the instances an outlier. */
static double factor_of(double noise)
{
    const double jitter = noise * (uniform() + uniform() + uniform() - 1.5);

    return (1 + jitter) * (uniform() < 0.02 && noise > 0 ? 3 : 1);
}

static void print_events(FILE *file, struct selection *s)
{
    for (int i = 0; i < s->choice.event_count; i++) {
        const struct event *const e = &s->choice.events[i];

        if (e->what == NEWS_PHASE)
            fprintf(file, "phase %d at %lld: %s\n", s->phases.number, (long long)e->instance,
                    e->why);
        if (e->what == NEWS_CHOICE)
            fprintf(file, "choice %d at %lld: %s\n", e->current, (long long)e->instance, e->why);
    }
    s->choice.event_count = 0;
}

static void decide_all(void)
{
    struct sum_max all[ROBUST_ALGORITHMS] = {{0, 0}}, mine[ROBUST_ALGORITHMS];

    for (int m = 0; m < MEMBERS; m++) {
        const int count = robust_routine_sums(&members[m], mine);

        for (int i = 0; i < count; i++) {
            all[i].sum += mine[i].sum;
            all[i].most = mine[i].most > all[i].most ? mine[i].most : all[i].most;
        }
    }
    for (int m = 0; m < MEMBERS; m++)
        robust_routine_decide(&members[m], all);
}

int main(int argc, char **argv)
{
    const int instances = atoi(argv[1]), change = atoi(argv[2]), until = atoi(argv[3]);
    const double noise = atof(argv[4]) / 100;
    double all = 0;
    char *decisions = NULL;
    size_t length = 0;
    FILE *const file = open_memstream(&decisions, &length);

    state = 88172645463325252u + (uint64_t)atoi(argv[5]) * 977;
    given = argc - 6;
    for (int i = 0; i < given; i++)
        if (sscanf(argv[6 + i], "%lf:%lf", &times[0][i], &times[1][i]) < 2)
            times[1][i] = times[0][i];
    for (int m = 0; m < MEMBERS; m++) {
        windows[m].member.members = MEMBERS;
        members[m].arrivals = &windows[m];
        members[m].count = given;
        members[m].listed = true;
        robust_routine_start(&members[m]);
    }
    for (int i = 0; i < instances; i++) {
        const int which = robust_routine_candidate(&members[0]);
        const double given_us = times[i >= change && i < until][which];
        const double us = (given_us < 0 ? -given_us : given_us) * factor_of(noise);
        const bool missed = given_us < 0 && members[0].robust.runs == 0;
        bool due = false;

        all += us / times[0][NATIVE];
        printf("%d ", which);
        for (int m = 0; m < MEMBERS; m++) {
            const int64_t ns = (int64_t)(1e3 * us * (0.7 + 0.2 * m));

            if (robust_routine_candidate(&members[m]) != which)
                return 1;
            members[m].instances++;
            due = robust_routine_note(&members[m], !missed, ns);
        }
        if (due)
            decide_all();
        print_events(file, &members[0]);
    }
    fclose(file);
    printf("\nprobes %d\ntime %.4f\n%s", members[0].probing.ran, all / instances, decisions);
    free(decisions);
    return 0;
}
