/* Inherits the keys of one communicator to another (core/selection/online/key.c), without MPI.
 *
 * The parent has one key per choice: none, a library algorithm, none, an algorithm of the catalogue
 * and another library algorithm. Prints the choice of each of these keys in the child. */
#include <stdio.h>

#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/execution.h"
#include "executor/private_comm.h"
#include "record/call.h"
#include "selection/online/key.h"
#include "selection/rules/rules.h"

enum { KEYS = 5 };

struct entry { /* with its state, as in comm.c */
    struct communicator k;
    struct comm_state state;
};
struct library_algorithm {
    const char *name;
};

/* ---- functions that key.c calls only in a running program */

struct pmpi pmpi;
struct recorder recorder;

void recorder_lock(void)
{
}

void recorder_unlock(void)
{
}

const struct site *call_site(const struct call *c)
{
    (void)c;
    return NULL;
}

bool problem_is_known(const struct execution *e)
{
    (void)e;
    return false;
}

int rules_of_site(const struct call_properties *q, const struct site *s)
{
    (void)q;
    (void)s;
    return RULE_NONE;
}

void diagnostics_share(const char *operation, const struct site *first, int override,
                       const struct site *other, int other_override)
{
    (void)operation;
    (void)first;
    (void) override;
    (void)other;
    (void)other_override;
}

bool auto_chooses = true, auto_is_collecting;

void finalize_free(struct key *keys, int count, MPI_Comm comm)
{
    (void)keys;
    (void)count;
    (void)comm;
}

void finalize_inherit(struct key *child, const struct key *parent)
{
    child->inherited = parent->inherited;
}

void finalize_windows(struct selection **list, int count, int64_t deadline)
{
    (void)list;
    (void)count;
    (void)deadline;
}

void finalize_orphans(int64_t deadline)
{
    (void)deadline;
}

int main(void)
{
    static const struct algorithm ring = {.name = "ring"};
    static const struct library_algorithm linear = {"linear"}, tree = {"tree"};
    static const struct variant choices[KEYS] = {[1] = {.library_algorithm = &linear},
                                                 [3] = {.algorithm = &ring},
                                                 [4] = {.library_algorithm = &tree}};
    static struct entry parent, child;

    for (uint32_t i = 0; i < KEYS; i++)
        key_find(&parent.k, i, i)->inherited = choices[i];
    keys_inherit(&child.k, &parent.k);
    for (uint32_t i = 0; i < KEYS; i++) {
        const struct variant *const v = &key_find(&child.k, i, i)->inherited;

        puts(v->algorithm != NULL           ? v->algorithm->name
             : v->library_algorithm != NULL ? v->library_algorithm->name
                                            : "none");
    }
    return 0;
}
