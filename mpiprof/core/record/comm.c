/* Communicator table: an identity that all members agree on without communicating, and the number
 * of collective operations that MPI orders on each communicator.
 *
 * An identity hashes the parent's identity, the parent's sequence number at creation and the
 * members (as world ranks). MPI does not order the callers of create_group, and the two sides of an
 * intercomm_create have different parents. For both, the hash uses the tag and the number of
 * earlier creations with the same members instead of the parent. Two communicators get an identity
 * that is local to the process, so their calls are recorded but never matched: a communicator with
 * members outside MPI_COMM_WORLD, and a handle that no wrapper saw being created.
 *
 * An entry lives as long as the process, because table rows refer to it. Equivalent communicators
 * reuse one entry (comm_id.c). The table from handles to entries is changed under recorder.lock.
 * MPI forbids concurrent collectives on one communicator, so `next` needs no lock.
 */
#include <stdlib.h>
#include <string.h>

#include "base/pmpi.h"
#include "callsite/callsite.h"
#include "record/communicator.h"
#include "record/record.h"
#include "tracefile/tracefile.h"

/* Each takes some 500 bytes in memory and as much in the tables. */
enum { MOST_COMMUNICATORS = 1 << 17 };
enum { NAME_BYTES = 512 }; /* no library has an MPI_MAX_OBJECT_NAME above 128 */

static struct map by_handle;
static _Atomic uint32_t entry_count;
struct communicator *_Atomic comm_first;
atomic_int comm_live_count;

static void handle_map(MPI_Comm comm, struct communicator *c)
{
    recorder_lock();
    comm_live_count += (c != NULL) - (map_get(&by_handle, map_key(comm)) != NULL);
    map_put(&by_handle, map_key(comm), c);
    atomic_fetch_add(&recorder.generation, 1);
    recorder_unlock();
}

/* Return the entry of a communicator, or NULL if it is unknown. Callbacks of a communicator that
 * this thread is freeing may still call on it. A callback that has left the call is no longer on
 * the stack. */
struct communicator *comm_find(MPI_Comm comm)
{
    struct communicator *const found = map_get(&by_handle, map_key(comm));
    const struct freeing *const f = self.freeing.object;

    if (found != NULL || f == NULL || (const void *)f < (const void *)&found ||
        !unwind_is_live(f) || f->stamp != self.freeing.stamp || f->comm == NULL ||
        f->comm->handle != comm)
        return found;
    return f->comm;
}

/* ---- creation of entries */

static void comm_write(const struct creation *how, MPI_Comm comm, struct communicator *c,
                       const struct members *mine, const struct members *others)
{
    struct text t = {0};

    text_add(&t, "{\"rank\": %d, \"communicator\": %u, \"identity\": \"%016llx\", \"parent\": ",
             recorder.rank, c->id,
             (unsigned long long)(c->equivalence.number > 0 ? c->equivalence.kind : c->identity));
    if (how->parent != NULL)
        text_add(&t, "\"%016llx\"", (unsigned long long)how->parent->identity);
    else
        text_add(&t, "null");
    text_add(&t, ", \"how\": \"%s\", \"local\": %s, \"inter\": %s, \"size\": %d, \"members\": ",
             how->how, c->local ? "true" : "false", c->inter ? "true" : "false",
             c->size + c->remote_size);
    members_write(&t, mine);
    if (c->inter) {
        text_add(&t, ", \"remote\": ");
        members_write(&t, others);
    } else {
        c->topology = topology_write(&t, comm, c->rank);
    }
    text_add(&t, "}\n");
    file_write_line(&t);
    text_free(&t);
}

/* The two sides of an accept and a connect cannot identify each other's parents. */
static bool is_accept_or_connect(const struct creation *how)
{
    return strcmp(how->how, "accept") == 0 || strcmp(how->how, "connect") == 0;
}

/* Return true if the members are known to be all ranks: MPI_COMM_WORLD and its duplicates. */
static bool has_all_ranks(const struct creation *how, const struct communicator *c)
{
    const bool is_duplicate =
        how->parent != NULL && how->parent->everyone && strstr(how->how, "dup") != NULL;

    return (is_duplicate || strcmp(how->how, "world") == 0) && !c->inter &&
           c->size == recorder.size;
}

static bool has_table_space(void)
{
    static atomic_bool reported;

    if (entry_count < MOST_COMMUNICATORS)
        return true;
    if (!atomic_exchange(&reported, true) && recorder.rank == 0)
        recorder_print(
            "more than %d communicators: calls on further communicators are not recorded",
            MOST_COMMUNICATORS);
    return false;
}

/* Return true if all members are known to agree on selection. In MPI_COMM_WORLD all ranks have
 * agreed in MPI_Init, or none selects. With Sessions, the members of a communicator from a group
 * agree when it is created. On an inter-communicator neither side can verify the other's
 * agreement. */
static bool agrees_on_selection(const struct creation *how, const struct communicator *c)
{
    if (!recorder.sessions)
        return recorder.agreed;
    if (how->agreed)
        return true;
    return !c->inter && how->parent != NULL && !how->parent->inter && how->parent->agreed;
}

/* Create the entry of a communicator; `how->parent` may be NULL. Returns NULL if memory is
 * insufficient. */
static struct communicator *entry_make(const struct creation *how, MPI_Comm comm)
{
    struct communicator *c = memory_allocate(sizeof *c + hooks.comm_state_bytes);
    struct members mine, others = {0};
    int inter = 0;

    if (c == NULL || pmpi.Comm_test_inter(comm, &inter) != MPI_SUCCESS) {
        memory_free(c);
        return NULL;
    }
    c->inter = inter != 0;
    c->handle = comm;
    pmpi.Comm_rank(comm, &c->rank);
    pmpi.Comm_size(comm, &c->size);
    mine = has_all_ranks(how, c) ? members_all(c->size) : members_of(comm, false, c->size);
    c->everyone = members_are_all(&mine);
    c->has_steps = c->everyone || atomic_load(&comm_first) == NULL;
    if (c->inter) {
        pmpi.Comm_remote_size(comm, &c->remote_size);
        others = members_of(comm, true, c->remote_size);
    }
    c->first_group = c->inter && !mine.foreign && !others.foreign &&
                     members_lowest(&mine) < members_lowest(&others);
    c->local = mine.foreign || others.foreign || (how->parent == NULL && how->text == NULL) ||
               is_accept_or_connect(how) || (how->parent != NULL && how->parent->local);
    c->identity = c->local ? comm_id_local() : comm_id_agreed(how, &mine, &others, c->inter);
    c->equivalence.number = comm_id_equivalence(how, c, comm, &mine);
    struct communicator *const again =
        c->equivalence.number > 0 ? comm_id_reuse_entry(c->equivalence.kind) : NULL;

    if (again != NULL) {
        const uint32_t id = again->id;
        const struct open_receives receives = again->receives; /* some may still be open */

        memcpy(again, c, sizeof *c + hooks.comm_state_bytes);
        again->id = id;
        again->receives = receives;
        memory_free(c);
        c = again;
    } else if (has_table_space()) {
        struct communicator *none = NULL;

        c->id = ++entry_count;
        comm_write(how, comm, c, &mine, &others);
        atomic_compare_exchange_strong(&comm_first, &none, c);
    } else {
        c->unrecorded = true;
    }
    memory_free(mine.ranks);
    memory_free(others.ranks);
    c->agreed = !c->local && agrees_on_selection(how, c);
    handle_map(comm, c);
    if (how->parent != NULL && strncmp(how->how, "dup", 3) == 0)
        hooks.inherited(c, how->parent);
    return c;
}

/* Create an entry for a window or file that the members share. `number` distinguishes it from
 * others. No algorithm runs on it, so no state follows it. */
struct communicator *comm_derive(const struct communicator *like, const char *how, uint32_t number)
{
    struct communicator *const c = calloc(1, sizeof *c);
    struct text t = {0};

    if (c == NULL)
        return NULL;
    c->identity = hash_mix(hash_text(like->identity, how, -1), number);
    c->handle = MPI_COMM_NULL;
    c->rank = like->rank;
    c->size = like->size;
    c->remote_size = like->remote_size;
    c->inter = like->inter;
    c->local = like->local;
    c->id = ++entry_count;
    text_add(&t, "{\"rank\": %d, \"communicator\": %u, \"identity\": \"%016llx\", \"parent\": ",
             recorder.rank, c->id, (unsigned long long)c->identity);
    text_add(&t, "\"%016llx\", \"how\": \"%s\", \"like\": %u, \"size\": %d}\n",
             (unsigned long long)like->identity, how, like->id, c->size + c->remote_size);
    file_write_line(&t);
    text_free(&t);
    return c;
}

/* Create an entry for the members of a group, which may lack this process. Returns NULL if memory is
 * insufficient. */
struct communicator *comm_derive_group(const struct communicator *window, uint64_t identity,
                                       const struct members *m)
{
    struct communicator *const c = calloc(1, sizeof *c);
    struct text t = {0};

    if (c == NULL)
        return NULL;
    c->identity = identity;
    c->handle = MPI_COMM_NULL;
    c->size = m->count;
    c->local = window->local;
    c->id = ++entry_count;
    text_add(&t, "{\"rank\": %d, \"communicator\": %u, \"identity\": \"%016llx\", \"parent\": ",
             recorder.rank, c->id, (unsigned long long)c->identity);
    text_add(&t, "\"%016llx\", \"how\": \"group\", \"local\": %s, \"size\": %d, \"members\": ",
             (unsigned long long)window->identity, c->local ? "true" : "false", c->size);
    members_write_runs(&t, m);
    text_add(&t, "}\n");
    file_write_line(&t);
    text_free(&t);
    return c;
}

struct communicator *comm_adopt(MPI_Comm comm)
{
    const struct creation how = {.how = "unknown"};

    return entry_make(&how, comm);
}

/* Create the entries of MPI_COMM_WORLD and MPI_COMM_SELF, which Sessions lack. Their identities are
 * equal in all jobs of the same size, so that random algorithms and samples are reproducible. */
void comm_start(void)
{
    struct communicator none = {0};
    const struct creation world = {.how = "world", .parent = &none, .counted = true};
    const struct creation self_alone = {
        .how = "self", .parent = &none, .counted = true, .sequence = 1};

    entry_make(&world, MPI_COMM_WORLD);
    entry_make(&self_alone, MPI_COMM_SELF);
}

/* ---- interface of the wrappers */

/* Return a number for an MPI_Comm_idup that is equal on its members. */
static uint64_t comm_idup_key(const struct creation *c)
{
    return hash_mix(c->parent != NULL ? c->parent->identity : 0, c->sequence);
}

void comm_creation_begin(struct creation *c, MPI_Comm parent, bool counted)
{
    if (!atomic_load(&recorder.active) || parent == MPI_COMM_NULL)
        return;
    c->nonblocking = strncmp(c->how, "idup", 4) == 0;
    comm_create_lock_begin(&c->holds_lock);
    c->parent_handle = parent;
    c->parent = comm_find(parent);
    c->counted = counted && c->parent != NULL;
    if (c->counted) {
        c->sequence = c->parent->next++;
        if (!c->nonblocking)
            c->parent->history = c->parent->history << 8 | HISTORY_CREATION;
    }
    if (c->nonblocking)
        comm_create_lock_note_idup(comm_idup_key(c));
    c->outer = self.creation;
    c->stamp = ++self.last_stamp;
    self.creation = (struct activity){c, c->stamp};
}

/* Also called before an error handler, which may never return. */
bool comm_creation_end(struct creation *c, int error)
{
    comm_create_lock_end(&c->holds_lock);
    if (self.creation.object == c)
        self.creation = c->outer;
    if (error == MPI_SUCCESS) /* or the error that the handler received */
        return !c->failed;
    c->failed = true;
    if (c->counted && refusal_is_of_creation(c, error) && c->parent->next == c->sequence + 1) {
        c->parent->next = c->sequence;
        c->parent->history >>= c->nonblocking ? 0 : 8;
        c->counted = false;
    }
    return false;
}

void comm_register(struct creation *c, MPI_Comm made)
{
    if (strcmp(c->how, "create_from_group") == 0 && made != MPI_COMM_NULL)
        c->agreed = hooks.group_created(made);
    if (atomic_load(&recorder.active) && made != MPI_COMM_NULL)
        entry_make(c, made);
}

/* Remove an entry from the table before the library may reuse its handle in another thread. */
void comm_free_begin(struct freeing *f, MPI_Comm comm)
{
    *f = (struct freeing){.outer = self.freeing, .stamp = ++self.last_stamp};
    f->comm = atomic_load(&recorder.active) ? comm_find(comm) : NULL;
    if (f->comm == NULL)
        return;
    self.freeing = (struct activity){f, f->stamp};
    handle_map(comm, NULL);
}

/* Also called before an error handler, which may never return. */
void comm_free_end(struct freeing *f, int error)
{
    struct communicator *const c = f->comm;

    if (c == NULL)
        return;
    f->comm = NULL;
    self.freeing = f->outer;
    if (error == MPI_SUCCESS) {
        atomic_fetch_add(&recorder.generation, 1); /* invalidates the threads' caches */
        hooks.freed(c);
        if (c->unrecorded) /* no row refers to it */
            memory_free(c);
        else if (c->equivalence.number > 0)
            comm_id_release_entry(c);
        return;
    }
    handle_map(c->handle, c);
}

void comm_name_changed(MPI_Comm comm, int error)
{
    char name[NAME_BYTES] = "";
    int length = 0;
    struct text t = {0};
    const struct communicator *const c =
        error == MPI_SUCCESS && atomic_load(&recorder.active) ? comm_find(comm) : NULL;

    if (c == NULL || c->unrecorded || c->equivalence.number > 0 ||
        pmpi.Comm_get_name(comm, name, &length) != MPI_SUCCESS)
        return;
    text_add(&t, "{\"rank\": %d, \"communicator\": %u, \"name\": ", recorder.rank, c->id);
    text_json(&t, name, length);
    text_add(&t, "}\n");
    file_write_line(&t);
    text_free(&t);
}
