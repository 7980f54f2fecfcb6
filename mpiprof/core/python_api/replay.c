/* Replay of a recorded run with other work, as a max-plus system (mpiprof/account/replay.py).
 *
 * It has no MPI and no state. Caller: mpiprof/account/replay.py, from any thread. The
 * caller owns all arrays. */
#include "base/base.h"

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* Advance the leads of ranks over events in order of time.
 *
 * rank, dependence, gap, removed: one value for each event. At a source, `dependence` is the number
 * of the dependence, and `gap` is the time from the event to the end of the dependence. At a rank
 * that depends on it, `dependence` is -1 - the number, and `gap` is the end of the dependence minus
 * the rank's entry. removed: work that is removed from the rank since its previous event.
 * ends: lead of each dependence, INFINITY at first. leads: of each rank, 0 at first. */
PUBLIC void replay_advance(int64_t events, const int32_t *rank, const int64_t *dependence,
                           const double *gap, const double *removed, double *ends, double *leads)
{
    for (int64_t i = 0; i < events; i++) {
        double *const mine = &leads[rank[i]];

        *mine += removed[i];
        if (dependence[i] >= 0) {
            double *const end = &ends[dependence[i]];

            *end = lesser(*end, *mine + gap[i]);
        } else {
            const double wait = gap[i] > 0 ? gap[i] : 0;

            *mine = lesser(*mine + wait, ends[-1 - dependence[i]] + (wait - gap[i]));
        }
    }
}
