/* Entries of windows and files, each with an identity and a sequence number like a communicator.
 *
 * Each entry is separate because two threads may fence two windows of one communicator at once. MPI
 * orders the calls that create windows and files among all calls on the communicator. But they are
 * counted on a second entry, which the communicator's windows and files share. File errors return,
 * so an open may fail on one rank only; counting it on the communicator would desynchronise the
 * numbers that selection uses.
 *
 * Threads: any, from the wrappers. The tables are changed under recorder.lock; entries are read
 * without it and live as long as the process.
 */
#include "base/recorder.h"
#include "record/communicator.h"
#include "tracefile/tracefile.h"

enum { MOST_HANDLES = 1 << 14 }; /* some 200 bytes each, and a kilobyte in the tables */

struct map window_file_comm_windows, window_file_comm_files;
static atomic_uint entry_count;

static bool has_table_space(void)
{
    static atomic_bool said;

    if (atomic_fetch_add(&entry_count, 1) < MOST_HANDLES)
        return true;
    atomic_fetch_sub(&entry_count, 1);
    if (!atomic_exchange(&said, true))
        file_write_note("more than %d windows, files and communicators that have them: calls on "
                        "further ones are not recorded",
                        MOST_HANDLES);
    return false;
}

/* Return the entry on which a communicator's windows and files are created, or NULL beyond
 * MOST_HANDLES. An entry that is reused for another communicator needs a new one. */
static struct communicator *creator_of(struct communicator *comm)
{
    if (comm->derived.creator == NULL && has_table_space())
        comm->derived.creator = comm_derive(comm, "maker", 0);
    return comm->derived.creator;
}

/* Return an entry with separate rows for a communicator that shares its entry, or NULL beyond
 * MOST_HANDLES. */
struct communicator *window_file_comm_persistent(struct communicator *comm)
{
    if (comm->derived.persistent == NULL && has_table_space())
        comm->derived.persistent = comm_derive(comm, "alike", 0);
    return comm->derived.persistent;
}

void window_file_comm_creation_begin(struct creation *c, MPI_Comm comm)
{
    struct communicator *const own =
        atomic_load_explicit(&recorder.active, memory_order_relaxed) ? comm_find(comm) : NULL;

    if (own != NULL) /* Open MPI creates a communicator for each window and file */
        comm_create_lock_begin(&c->holds_lock);
    /* A communicator of one process has no waits. */
    c->parent = own != NULL && own->size + own->remote_size > 1 ? creator_of(own) : NULL;
    c->counted = c->parent != NULL;
    if (c->counted)
        c->sequence = c->parent->next++;
}

static void handle_map(struct map *table, uint64_t key, struct communicator *c)
{
    recorder_lock();
    map_put(table, key, c);
    atomic_fetch_add(&recorder.generation, 1); /* invalidates the threads' caches */
    recorder_unlock();
}

void window_file_comm_register(struct map *table, uint64_t key, const struct creation *c)
{
    if (!c->counted || !has_table_space())
        return;
    struct communicator *const entry = comm_derive(c->parent, c->how, c->sequence);

    handle_map(table, key, entry);
}

/* Remove an entry from its table before the library may reuse the handle in another thread. */
struct communicator *window_file_comm_unlink(struct map *table, uint64_t key)
{
    struct communicator *const c = atomic_load(&recorder.active) ? map_get(table, key) : NULL;

    if (c != NULL)
        handle_map(table, key, NULL);
    return c;
}

/* Restore the entry after the call if the handle could not be freed. */
void window_file_comm_freed(struct map *table, uint64_t key, struct communicator *c, int error)
{
    if (c != NULL && error != MPI_SUCCESS)
        handle_map(table, key, c);
}

static struct communicator *group_find(const struct communicator *window, const struct members *m)
{
    static struct map groups; /* identity -> struct communicator * */
    const uint64_t identity = hash_mix(hash_text(window->identity, "group", -1), members_hash(m));
    struct communicator *entry = map_get(&groups, identity);

    if (entry == NULL && has_table_space()) {
        entry = comm_derive_group(window, identity, m);
        recorder_lock();
        map_put(&groups, identity, entry);
        recorder_unlock();
    }
    return entry;
}

/* Return the entry for the members of a group in an epoch of a window. The group has members.
 * Returns NULL if one of them is unknown, or beyond MOST_HANDLES. */
const struct communicator *window_file_comm_group(const struct communicator *window,
                                                  MPI_Group group)
{
    struct members m = members_of_group(group);
    const struct communicator *const entry = m.foreign ? NULL : group_find(window, &m);

    memory_free(m.ranks);
    return entry;
}
