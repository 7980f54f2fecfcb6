/* Windows and files: whose call is whose.
 *
 * Each has an entry like a communicator's, with an identity and a count of its own: two threads may
 * fence two windows of one communicator at once. MPI orders the calls that make them among all
 * calls on the communicator, but they are counted beside it, on an entry that the communicator's
 * windows and files share: an open that fails on one rank only (there errors return) would else
 * leave the numbers apart by which calls are switched.
 *
 * Any thread comes here, from the wrappers; the tables are changed under recorder.lock, and what a
 * handle leads to is read without. Entries live as long as the process.
 */
#include "record/handles.h"
#include "base/map.h"
#include "base/native.h"
#include "base/recorder.h"
#include "record/comm.h"
#include "record/making.h"
#include "trace/file.h"

enum { MOST_HANDLES = 1 << 14 }; /* some 200 bytes each, and a kilobyte in the tables */

static struct map windows, files;
static atomic_uint made;

static bool is_room_for_one(void)
{
    static atomic_bool said;

    if (atomic_fetch_add(&made, 1) < MOST_HANDLES)
        return true;
    atomic_fetch_sub(&made, 1);
    if (!atomic_exchange(&said, true))
        file_note("more than %d windows, files and communicators that have them: calls on later "
                  "ones are not recorded",
                  MOST_HANDLES);
    return false;
}

/* Where the windows and files of a communicator are made; NULL: there are too many. An entry that
 * is used again for another communicator needs a new one. */
static struct communicator *maker_of(struct communicator *comm)
{
    if (comm->handles == NULL && is_room_for_one())
        comm->handles = comm_derive(comm, "maker", 0);
    return comm->handles;
}

/* An entry with rows of its own for one of many communicators that are alike; NULL: there are too
 * many. */
struct communicator *handle_own(struct communicator *comm)
{
    if (comm->own == NULL && is_room_for_one())
        comm->own = comm_derive(comm, "alike", 0);
    return comm->own;
}

void handle_making(struct creation *c, MPI_Comm comm)
{
    struct communicator *const own =
        atomic_load_explicit(&recorder.active, memory_order_relaxed) ? comm_find(comm) : NULL;

    if (own != NULL) /* Open MPI makes a communicator for each window and file */
        making_begin(&c->under_way);
    /* Nobody waits for anybody on a communicator of one process. */
    c->parent = own != NULL && own->size + own->remote_size > 1 ? maker_of(own) : NULL;
    c->counted = c->parent != NULL;
    if (c->counted)
        c->sequence = c->parent->next++;
}

static void handle_register(const struct creation *c, struct map *table, uint64_t key)
{
    if (!c->counted || !is_room_for_one())
        return;
    struct communicator *const entry = comm_derive(c->parent, c->how, c->sequence);

    recorder_lock();
    map_put(table, key, entry);
    recorder_unlock();
}

/* Takes an entry out of its table before the library may give its handle to another thread. */
static struct communicator *handle_unlink(struct map *table, uint64_t key)
{
    struct communicator *const c = atomic_load(&recorder.active) ? map_get(table, key) : NULL;

    if (c != NULL) {
        recorder_lock();
        map_put(table, key, NULL);
        recorder_unlock();
    }
    return c;
}

/* After the call: what could not be freed is still there. */
static void handle_freed(struct map *table, struct communicator *c, int error, uint64_t key)
{
    if (c == NULL || error == MPI_SUCCESS)
        return;
    recorder_lock();
    map_put(table, key, c);
    recorder_unlock();
}

static uint64_t window_key(MPI_Win window)
{
    return (uint64_t)(uintptr_t)window;
}

static uint64_t file_key(MPI_File file)
{
    return (uint64_t)(uintptr_t)file;
}

void handle_window_register(const struct creation *c, MPI_Win window)
{
    handle_register(c, &windows, window_key(window));
}

struct communicator *handle_window_find(MPI_Win window)
{
    return map_get(&windows, window_key(window));
}

struct communicator *handle_window_unlink(MPI_Win window)
{
    return handle_unlink(&windows, window_key(window));
}

void handle_window_freed(struct communicator *c, int error, MPI_Win window)
{
    handle_freed(&windows, c, error, window_key(window));
}

void handle_file_register(const struct creation *c, MPI_File file)
{
    handle_register(c, &files, file_key(file));
}

struct communicator *handle_file_find(MPI_File file)
{
    return map_get(&files, file_key(file));
}

struct communicator *handle_file_unlink(MPI_File file)
{
    return handle_unlink(&files, file_key(file));
}

void handle_file_freed(struct communicator *c, int error, MPI_File file)
{
    handle_freed(&files, c, error, file_key(file));
}
