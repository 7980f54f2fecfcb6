/* Calls random collectives and checks every byte of every buffer, including gaps and send buffers.
 *
 *   execute_cases SEED CASES FILE [threads=N] [strict] [only=NAME] [first=N] [verbose]
 *
 * All ranks draw the same operations, sizes, roots and communicators from the seed. Each rank draws
 * its own datatypes of the same signature if the standard permits. `strict`: nothing runs on the
 * library's algorithms, so calls that the library is known to get wrong are included. FILE is
 * shared memory that checks barriers. With -DLARGE the calls use large counts. Exits with 1 after
 * the first wrong byte, and prints that byte with its case.
 */
#include "execute_cases.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct communicators {
    MPI_Comm world, reversed, half, inter;
    bool first; /* of the inter-communicator's groups */
};

/* ---- rooted operations on an inter-communicator, which stay native: garbage must not be read */

static void test_inter_rooted(struct test *t)
{
    const bool gives = t->first == (draw(&t->shared, 2) == 0);
    int value[MOST], values[MOST];
    const int root = gives ? (t->me == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;

    for (int i = 0; i < MOST; i++)
        value[i] = values[i] = (int)(mix(t->key, 5) % 1000);
    if (gives && t->me != 0)
        CALL(Bcast)(NULL, 0, MPI_INT, root, t->comm); /* Open MPI checks what is not significant */
    else
        CALL(Bcast)(values, 3, MPI_INT, root, t->comm);
    if (gives && t->me != 0)
        CALL(Gather)(NULL, GARBAGE, MPI_DATATYPE_NULL, NULL, GARBAGE, MPI_DATATYPE_NULL, root,
                     t->comm);
    else if (gives)
        CALL(Gather)(NULL, GARBAGE, MPI_DATATYPE_NULL, values, 1, MPI_INT, root, t->comm);
    else
        CALL(Gather)(value, 1, MPI_INT, NULL, GARBAGE, MPI_DATATYPE_NULL, root, t->comm);
    for (int i = 0; i < 3; i++)
        if (values[i] != value[i])
            fail("rooted operation", i, NULL);
    value[0] = 1;
    CALL(Allreduce)(value, values, 1, MPI_INT, MPI_SUM, t->comm);
    if (values[0] != t->there)
        fail("allreduce of the other group", 0, NULL);
}

/* ---- all of them */

static void run_bcast(struct test *t)
{
    test_bcast(t);
}
static void run_gather(struct test *t)
{
    test_gather(t, false);
}
static void run_gatherv(struct test *t)
{
    test_gather(t, true);
}
static void run_scatter(struct test *t)
{
    test_scatter(t, false);
}
static void run_scatterv(struct test *t)
{
    test_scatter(t, true);
}
static void run_allgather(struct test *t)
{
    test_allgather(t, false);
}
static void run_allgatherv(struct test *t)
{
    test_allgather(t, true);
}
static void run_alltoall(struct test *t)
{
    test_alltoall(t, false);
}
static void run_alltoallv(struct test *t)
{
    test_alltoall(t, true);
}
static void run_reduce(struct test *t)
{
    test_reduction(t, REDUCE);
}
static void run_allreduce(struct test *t)
{
    test_reduction(t, ALLREDUCE);
}
static void run_reduce_scatter(struct test *t)
{
    test_reduction(t, REDUCE_SCATTER);
}
static void run_reduce_scatter_block(struct test *t)
{
    test_reduction(t, REDUCE_SCATTER_BLOCK);
}

static const struct {
    const char *name;
    void (*run)(struct test *t);
    bool inter, any; /* any datatypes will do, with the library's own algorithms, too */
} operations[] = {
    {"bcast", run_bcast, false, true},
    {"gather", run_gather, false, true},
    {"gatherv", run_gatherv, false, true},
    {"scatter", run_scatter, false, true},
    {"scatterv", run_scatterv, false, true},
    {"allgather", run_allgather, false, true},
    {"allgatherv", run_allgatherv, false, false},
    {"alltoall", run_alltoall, false, true},
    {"alltoallv", run_alltoallv, false, true},
    {"reduce", run_reduce, false, true},
    {"allreduce", run_allreduce, false, true},
    {"reduce_scatter", run_reduce_scatter, false, true},
    {"reduce_scatter_block", run_reduce_scatter_block, false, true},
    {"barrier", test_barrier, false, true},
    {"allgather", run_allgather, true, false},
    {"allgatherv", run_allgatherv, true, false},
    {"rooted", test_inter_rooted, true, false},
    {"barrier", test_barrier, true, true},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

int world_rank, world_size;
bool strict, verbose;
static const char *only;
static atomic_long *shared_counters;

static void hung(int signal)
{
    (void)signal;
    if (write(2, "hangs in ", 9) > 0 && write(2, description, strlen(description)) > 0)
        (void)!write(2, "\n", 1);
    _exit(3);
}

static void run_case(int thread, int number, uint64_t seed, const struct communicators *k)
{
    struct test t = {.shared = {mix(mix(seed, (uint64_t)thread), (uint64_t)number)},
                     .number = number,
                     .thread = thread,
                     .detail = ""};
    static const int multiples[] = {1, 1, 2, 6, 12};
    const int which = draw(&t.shared, OPERATIONS), place = draw(&t.shared, 5);
    const MPI_Comm comms[] = {k->world, k->world, k->reversed, k->half, MPI_COMM_WORLD};

    if (only != NULL && strcmp(only, operations[which].name) != 0)
        return;
    t.operation = operations[which].name;
    t.inter = operations[which].inter;
    if (t.inter && world_size < 2)
        return;
    t.comm = t.inter ? k->inter : comms[thread == 0 || place < 4 ? place : 0];
    MPI_Comm_rank(t.comm, &t.me);
    MPI_Comm_size(t.comm, &t.size);
    t.there = t.size;
    if (t.inter)
        MPI_Comm_remote_size(t.comm, &t.there);
    t.first = t.inter && k->first;
    t.key = t.shared.state;
    t.own.state = mix(t.key, (uint64_t)world_rank + 1000);
    t.root = (int)(mix(t.key, 9) % (uint64_t)t.size);
    t.in_place = draw(&t.shared, 3) == 0;
    t.plain = !operations[which].any && !strict;
    t.mixed = draw(&t.shared, 2) == 0 && !t.plain;
    t.base = (enum base)draw(&t.shared, BASES);
    if (t.base == CHAR_DOUBLE && t.inter && !strict)
        t.base = DOUBLE;
    t.multiple = multiples[draw(&t.shared, 5)];
    t.arrivals = &shared_counters[8 * thread + (t.inter ? 4 : place == 3 ? 2 + world_rank % 2 : 0)];
    describe(&t);
    alarm(300);
    operations[which].run(&t);
}

struct work {
    struct communicators k;
    uint64_t seed;
    int thread, first, last;
};

static void *run_cases(void *argument)
{
    const struct work *const w = argument;

    for (int i = w->first; i < w->last; i++)
        run_case(w->thread, i, w->seed, &w->k);
    return NULL;
}

static void communicators_make(struct communicators *k)
{
    const int first = (world_size + 2) / 3;
    MPI_Comm group;

    MPI_Comm_dup(MPI_COMM_WORLD, &k->world);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &k->reversed);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &k->half);
    k->inter = MPI_COMM_NULL;
    if (world_size < 2)
        return;
    k->first = world_rank < first;
    MPI_Comm_split(MPI_COMM_WORLD, k->first, 0, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, k->first ? first : 0, 7, &k->inter);
    MPI_Comm_free(&group);
}

static void communicators_free(struct communicators *k)
{
    MPI_Comm_free(&k->world);
    MPI_Comm_free(&k->reversed);
    MPI_Comm_free(&k->half);
    if (k->inter != MPI_COMM_NULL)
        MPI_Comm_free(&k->inter);
}

int main(int argc, char **argv)
{
    struct work work[MOST_THREADS];
    pthread_t handles[MOST_THREADS];
    int threads = 1, first = 0, provided;

    if (argc < 4)
        return 2;
    for (int i = 4; i < argc; i++) {
        strict |= strcmp(argv[i], "strict") == 0;
        verbose |= strcmp(argv[i], "verbose") == 0;
        if (strncmp(argv[i], "only=", 5) == 0)
            only = argv[i] + 5;
        if (strncmp(argv[i], "threads=", 8) == 0)
            threads = atoi(argv[i] + 8);
        if (strncmp(argv[i], "first=", 6) == 0)
            first = atoi(argv[i] + 6);
    }
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    if (threads > 1 && provided < MPI_THREAD_MULTIPLE)
        return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    signal(SIGALRM, hung);
    const int file = open(argv[3], O_RDWR | O_CREAT, 0600);

    if (file < 0 || ftruncate(file, 4096) != 0)
        return 2;
    shared_counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    reductions_begin();
    for (int i = 0; i < threads; i++) {
        work[i] = (struct work){.seed = strtoull(argv[1], NULL, 0),
                                .thread = i,
                                .first = first,
                                .last = first + atoi(argv[2])};
        communicators_make(&work[i].k);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < threads; i++)
        pthread_create(&handles[i], NULL, run_cases, &work[i]);
    run_cases(&work[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(handles[i], NULL);
    for (int i = 0; i < threads; i++)
        communicators_free(&work[i].k);
    reductions_end();
    MPI_Finalize();
    return 0;
}
