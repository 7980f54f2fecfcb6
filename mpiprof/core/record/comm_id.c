/* Identity of a communicator, equal on all members without a message (comm.c), and its number
 * among equivalent communicators. */
#include "record/communicator.h"

#include <string.h>

#include "base/pmpi.h"
#include "base/recorder.h"

enum { MOST_KIN = 1 << 30 };
#define KIN_BY_IDENTITY (INT64_C(1) << 61) /* first number derived from an identity */

static struct map occurrences, free_entries; /* protected by recorder.lock */

static uint64_t occurrence_count(uint64_t key)
{
    recorder_lock();
    const uintptr_t before = (uintptr_t)map_get(&occurrences, key);

    map_put(&occurrences, key, (void *)(before + 1)); /* the count itself, not a pointer */
    recorder_unlock();
    return before;
}

uint64_t comm_id_agreed(const struct creation *how, const struct members *mine,
                        const struct members *others, bool inter)
{
    const uint64_t a = members_hash(mine), b = inter ? members_hash(others) : 0;
    uint64_t h = hash_mix(a < b ? a : b, a < b ? b : a);
    const bool by_parent = how->counted && strcmp(how->how, "intercomm_create") != 0;

    if (by_parent)
        return hash_mix(hash_mix(h, how->parent->identity), how->sequence);
    if (strcmp(how->how, "create_group") == 0)
        h = hash_mix(h, how->parent->identity);
    h = hash_text(hash_mix(h, (uint64_t)how->tag), how->text != NULL ? how->text : "",
                  how->text != NULL ? how->text_length : -1);
    return hash_mix(h, occurrence_count(h));
}

uint64_t comm_id_local(void)
{
    static atomic_uint_fast64_t made;

    return hash_mix(hash_mix(recorder.job ^ 0x10ca1, (uint64_t)recorder.rank),
                    atomic_fetch_add(&made, 1));
}

/* ---- equivalent communicators
 *
 * A program that repeatedly creates, uses and frees a communicator would leave rows and memory
 * behind for each. Beyond the first `alike` equivalent communicators (same creation call, members
 * and parent), they reuse one entry, one at a time, and its rows of shapes. Each record contains
 * the number of its communicator. All members create them in the order of the parent, so the number
 * is equal on all members. If the parent itself shares an entry, its children have no common order,
 * and their number is derived from their identity.
 */

int64_t comm_id_equivalence(const struct creation *how, struct communicator *c, MPI_Comm comm,
                            const struct members *mine)
{
    const struct communicator *const parent = how->parent;
    int topology = MPI_UNDEFINED;

    if (c->local || c->inter || !how->counted || parent->size < 1 || parent->id == 0 ||
        pmpi.Topo_test(comm, &topology) != MPI_SUCCESS || topology != MPI_UNDEFINED)
        return 0;
    c->equivalence.kind =
        hash_mix(hash_text(members_hash(mine), how->how, -1),
                 parent->equivalence.number > 0 ? parent->equivalence.kind : parent->identity);
    if (parent->equivalence.number > 0)
        return KIN_BY_IDENTITY + (int64_t)(c->identity % KIN_BY_IDENTITY);
    const uint64_t earlier = occurrence_count(hash_mix(c->equivalence.kind, 1));

    return earlier >= (uint64_t)recorder.options.alike && earlier < MOST_KIN ? (int64_t)earlier : 0;
}

/* Return a free entry of the same kind, with its table number, or NULL if there is none. */
struct communicator *comm_id_reuse_entry(uint64_t kind)
{
    recorder_lock();
    struct communicator *const found = map_get(&free_entries, kind);

    if (found != NULL)
        map_put(&free_entries, kind, found->equivalence.next_free);
    recorder_unlock();
    return found;
}

void comm_id_release_entry(struct communicator *c)
{
    recorder_lock();
    c->equivalence.next_free = map_get(&free_entries, c->equivalence.kind);
    map_put(&free_entries, c->equivalence.kind, c);
    recorder_unlock();
}
