/* The field of a phase: which candidates are probed in it. */
#include "auto/field.h"

#include "auto/candidates.h"
#include "auto/robust.h"
#include "auto/selection.h"
#include "schedule/schedule.h"

/* Whether a candidate is predicted to be promising: less strictly where all are predicted to be far
 * ahead of what runs now, as then the predictions know little of the machine. In a later phase they
 * have had their say. */
static bool promises(const struct selection *s, int64_t predicted, int64_t least, int64_t usual)
{
    if (predicted == 0) /* not known */
        return true;
    if (predicted > usual + usual / 4)
        return false;
    return s->phases.number > 1 || 2 * predicted <= (4 * predicted <= usual ? 5 : 3) * least;
}

/* Algorithms in which one rank joins last: with who comes last in this phase. */
static void list_late(struct selection *s)
{
    const int listed = s->count;

    for (int i = 1; i < listed && s->probing.late >= 0; i++) {
        struct variant wanted = s->list[i].variant;

        wanted.late = s->probing.late;
        if (wanted.algorithm->early != NULL)
            candidate_changed(s->list, &s->count, i, &wanted);
    }
}

static bool is_for_this_phase(const struct selection *s, int i)
{
    const struct variant *const v = &s->list[i].variant;

    return v->algorithm->early == NULL || v->late == s->probing.late;
}

/* The promising ones that are predicted best, as many as may be probed; returns how many. */
int field_choose(struct selection *s)
{
    const int most = s->probing.limit * 2 / 7 < MOST_FIELD ? s->probing.limit * 2 / 7 : MOST_FIELD;
    const int64_t usual = robust_median(&s->list[s->hold.current]);
    int64_t least = INT64_MAX;
    int chosen = 0;

    list_late(s);
    s->list[NATIVE].out = false;
    for (int i = 1; i < s->count; i++) {
        const int64_t p = s->list[i].predicted_ns;

        s->list[i].out = true;
        if (is_for_this_phase(s, i))
            least = p > 0 && p < least ? p : least;
    }
    for (; chosen < most; chosen++) {
        int next = -1;

        for (int i = 1; i < s->count; i++) {
            const int64_t p = s->list[i].predicted_ns;

            if (s->list[i].out && i != s->hold.current && is_for_this_phase(s, i) &&
                promises(s, p, least, usual) && (next < 0 || p < s->list[next].predicted_ns))
                next = i;
        }
        if (next < 0)
            break;
        s->list[next].out = false;
    }
    return chosen;
}
