/* A rank that never takes part in a call on a window, file or communicator, on 3 ranks.
 *
 *     hang_planted_calls CALL
 *
 * Rank 0 sleeps. In a call of all members (`all` below), ranks 1 and 2 wait for it. In other calls,
 * rank 1 waits for it, and rank 2 waits in a barrier.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Open MPI 5 has sessions and partitioned messages, but not all of MPI 4. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAS_SESSIONS 1
#else
#define HAS_SESSIONS 0
#endif

static int rank, value = 1, *base, *made;
static char name[64];
static MPI_Comm two, inter, comm;
static MPI_Group pair;
static MPI_Win window, created;
static MPI_File file;

static void sleep_forever(void)
{
    for (;;)
        sleep(1);
}

/* ---- calls of all members */

static void win_fence(void)
{
    MPI_Win_fence(0, window);
}
static void win_free(void)
{
    MPI_Win_free(&window);
}
static void win_create(void)
{
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &created);
}
static void win_allocate(void)
{
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &made, &created);
}
static void win_allocate_shared(void)
{
    MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &made, &created);
}
static void win_create_dynamic(void)
{
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &created);
}
static void comm_split(void)
{
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
}
static void comm_split_type(void)
{
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &comm);
}
static void comm_dup(void)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
}
static void comm_create(void)
{
    MPI_Group all;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_create(MPI_COMM_WORLD, all, &comm);
}
static void cart_create(void)
{
    const int dims[] = {3}, periods[] = {0};

    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
}
static void intercomm_create(void)
{
    MPI_Intercomm_create(two, 0, MPI_COMM_WORLD, 0, 5, &comm); /* the other leader is rank 0 */
}
static void intercomm_merge(void)
{
    MPI_Intercomm_merge(inter, 0, &comm);
}
static void file_open(void)
{
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
}
static void file_write_all(void)
{
    MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
}
static void file_read_at_all(void)
{
    MPI_File_read_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
}
static void file_set_size(void)
{
    MPI_File_set_size(file, 64);
}
static void file_write_ordered(void)
{
    MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
}
static void comm_spawn(void)
{
    MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm,
                   MPI_ERRCODES_IGNORE);
}
static void comm_accept(void)
{
    MPI_Comm_accept("unused", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm);
}

static void add_forever(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
    sleep_forever();
}
/* The operation does not return. */
static void user_reduction(void)
{
    MPI_Op operation;
    int result;

    MPI_Op_create(add_forever, 1, &operation);
    MPI_Allreduce(&value, &result, 1, MPI_INT, operation, two);
}

/* ---- calls of rank 1 */

static int delete_slowly(MPI_Comm object, int key, void *attribute, void *state)
{
    int flag;

    (void)object, (void)key, (void)attribute, (void)state;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    sleep_forever();
    return MPI_SUCCESS;
}
static void comm_free(void)
{
    int key;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_slowly, &key, NULL);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_attr(comm, key, NULL);
    MPI_Comm_free(&comm);
}

static void win_wait(void)
{
    MPI_Win_post(pair, 0, window);
    MPI_Win_wait(window);
}
static void win_start(void)
{
    MPI_Win_start(pair, 0, window);
    MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
    MPI_Win_complete(window);
}
static void win_get(void)
{
    MPI_Win_start(pair, 0, window);
    MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
    MPI_Win_complete(window);
}
static void locked_put(void)
{
    MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
}
static void win_unlock(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    locked_put();
    MPI_Win_unlock(0, window);
}
static void win_lock_shared(void)
{
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    locked_put();
    MPI_Win_unlock(0, window);
}
static void win_unlock_all(void)
{
    MPI_Win_lock_all(0, window);
    locked_put();
    MPI_Win_unlock_all(window);
}
static void win_flush(void)
{
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    locked_put();
    MPI_Win_flush(0, window);
}
static void win_flush_all(void)
{
    MPI_Win_lock_all(0, window);
    locked_put();
    MPI_Win_flush_all(window);
}
static void fetch_and_op(void)
{
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&rank, &value, MPI_INT, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
}
static void compare_and_swap(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Compare_and_swap(&rank, &rank, &value, MPI_INT, 0, 0, window);
    MPI_Win_unlock(0, window);
}
static void comm_create_group(void)
{
    MPI_Group both;
    MPI_Group world;
    const int members[] = {0, 1};

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, members, &both);
    MPI_Comm_create_group(MPI_COMM_WORLD, both, 7, &comm);
}
static void comm_accept_alone(void)
{
    char port[MPI_MAX_PORT_NAME];

    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm);
}
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
static void buffer_flush(void)
{
    enum { BYTES = 1 << 20 }; /* more than a library sends without its receiver */
    static char message[BYTES], space[2 * BYTES];

    MPI_Buffer_attach(space, sizeof space);
    MPI_Bsend(message, BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    MPI_Buffer_flush();
}
#endif
#if HAS_SESSIONS
static void comm_create_from_group(void)
{
    MPI_Session session;
    MPI_Group world, both;
    const int members[] = {0, 1};

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Group_incl(world, 2, members, &both);
    MPI_Comm_create_from_group(both, "planted", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
}

/* Rank 0 has started its message, but none of its partitions is ready. */
static void partitioned(void)
{
    MPI_Request request;

    MPI_Precv_init(&value, 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
#endif

static const struct planted {
    const char *name;
    void (*call)(void);
    int of_all;
} table[] = {
    {"win_fence", win_fence, 1},
    {"win_free", win_free, 1},
    {"win_create", win_create, 1},
    {"win_allocate", win_allocate, 1},
    {"win_allocate_shared", win_allocate_shared, 1},
    {"win_create_dynamic", win_create_dynamic, 1},
    {"comm_split", comm_split, 1},
    {"comm_split_type", comm_split_type, 1},
    {"comm_dup", comm_dup, 1},
    {"comm_create", comm_create, 1},
    {"cart_create", cart_create, 1},
    {"intercomm_create", intercomm_create, 1},
    {"intercomm_merge", intercomm_merge, 1},
    {"file_open", file_open, 1},
    {"file_write_all", file_write_all, 1},
    {"file_read_at_all", file_read_at_all, 1},
    {"file_set_size", file_set_size, 1},
    {"file_write_ordered", file_write_ordered, 1},
    {"comm_spawn", comm_spawn, 1},
    {"comm_accept", comm_accept, 1},
    {"user_reduction", user_reduction, 1},
    {"comm_free", comm_free, 0},
    {"win_wait", win_wait, 0},
    {"win_start", win_start, 0},
    {"win_get", win_get, 0},
    {"win_unlock", win_unlock, 0},
    {"win_lock_shared", win_lock_shared, 0},
    {"win_unlock_all", win_unlock_all, 0},
    {"win_flush", win_flush, 0},
    {"win_flush_all", win_flush_all, 0},
    {"fetch_and_op", fetch_and_op, 0},
    {"compare_and_swap", compare_and_swap, 0},
    {"comm_create_group", comm_create_group, 0},
    {"comm_accept_alone", comm_accept_alone, 0},
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    {"buffer_flush", buffer_flush, 0},
#endif
#if HAS_SESSIONS
    {"comm_create_from_group", comm_create_from_group, 0},
    {"partitioned", partitioned, 0},
#endif
};

/* Prepare the objects of a call. Rank 0 holds the lock that others request. */
static void prepare(const struct planted *p)
{
    const int zero = 0;
    MPI_Group world;

    snprintf(name, sizeof name, "planted-%s", p->name);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &zero, &pair);
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &two);
    MPI_Win_allocate(64, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    if (strcmp(p->name, "intercomm_merge") == 0)
        MPI_Intercomm_create(two, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 4, &inter);
    if (strncmp(p->name, "file_", 5) == 0 && strcmp(p->name, "file_open") != 0)
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (strstr(p->name, "lock") != NULL || strstr(p->name, "flush") != NULL ||
        strcmp(p->name, "fetch_and_op") == 0 || strcmp(p->name, "compare_and_swap") == 0) {
        if (rank == 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
            locked_put();
            MPI_Win_flush(0, window); /* only now is the lock certain to be held */
        }
    }
#if HAS_SESSIONS
    if (strcmp(p->name, "partitioned") == 0 && rank == 0) {
        MPI_Request request;

        MPI_Psend_init(&value, 1, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
    }
#endif
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const struct planted *p = table;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (argc < 2 || strcmp(p->name, argv[1]) != 0)
        if (++p == table + sizeof table / sizeof *table)
            MPI_Abort(MPI_COMM_WORLD, 1);
    prepare(p);
    if (rank == 0)
        sleep_forever();
    if (p->of_all || rank == 1)
        p->call();
    MPI_Barrier(two); /* only ranks 1 and 2, of which one may be in the call */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
