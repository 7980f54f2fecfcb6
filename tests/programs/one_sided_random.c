/* Random epochs on windows and random polls, with known answers: SEED ROUNDS THREADS
 *
 * Every thread has a communicator and a window, and all ranks draw the same plan for it. A rank
 * writes only to its cell of each target, so it knows the values of these cells. Messages are
 * received by polls in vain. Each rank prints a line "rank function calls bytes" for each function
 * with a target; bytes are those of the origin.
 */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, LONGEST = 16, MOST_THREADS = 4 };
enum { FENCE, GROUPS, LOCK, LOCK_ALL, POLLS, EPOCHS };
enum {
    PUT,
    GET,
    ACCUMULATE,
    GET_ACCUMULATE,
    FETCH_AND_OP,
    COMPARE_AND_SWAP,
    RPUT,
    RGET,
    FUNCTIONS
};
static const char *const names[FUNCTIONS] = {
    "put",  "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap",
    "rput", "rget"};

struct worker {
    uint64_t common, private; /* states of the plan and of this rank's choices */
    MPI_Comm comm;
    MPI_Win window;
    int *cells;                  /* [origin][LONGEST] */
    int expected[MOST][LONGEST]; /* by target: this rank's cell */
    int found[MOST][LONGEST], wanted[MOST][LONGEST], lengths[MOST]; /* results of an epoch */
    int sources[MOST][LONGEST]; /* unchanged until the end of an epoch */
    MPI_Request requests[MOST];
    long calls[FUNCTIONS], bytes[FUNCTIONS];
};

static int rank, size, rounds;

static int random_below(uint64_t *state, int limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)limit);
}

static void fail(const char *what)
{
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Start one random function on a target. The result is known at the end of the epoch. */
static void access_start(struct worker *w, int target)
{
    const int function = random_below(&w->private, FUNCTIONS);
    const int is_single = function == FETCH_AND_OP || function == COMPARE_AND_SWAP;
    const int n = is_single ? 1 : random_below(&w->private, LONGEST + 1);
    const MPI_Aint at = (MPI_Aint)rank * LONGEST;
    int *const source = w->sources[target], *const expected = w->expected[target];
    int *const found = w->found[target];
    static const int zero[MOST_THREADS]; /* never equal to a cell that has been written */

    w->requests[target] = MPI_REQUEST_NULL;
    memcpy(w->wanted[target], expected, sizeof w->wanted[target]);
    w->lengths[target] = function == PUT || function == ACCUMULATE || function == RPUT ? 0 : n;
    for (int i = 0; i < n; i++) {
        source[i] = 1 + random_below(&w->private, 1000);
        if (function == PUT || function == RPUT)
            expected[i] = source[i];
        else if (function == ACCUMULATE || function == GET_ACCUMULATE || function == FETCH_AND_OP)
            expected[i] += source[i];
        else if (function == COMPARE_AND_SWAP && expected[i] == 0)
            expected[i] = source[i];
    }
    w->calls[function]++;
    w->bytes[function] += (long)(n * (int)sizeof(int));
    switch (function) {
    case PUT: MPI_Put(source, n, MPI_INT, target, at, n, MPI_INT, w->window); break;
    case GET: MPI_Get(found, n, MPI_INT, target, at, n, MPI_INT, w->window); break;
    case ACCUMULATE:
        MPI_Accumulate(source, n, MPI_INT, target, at, n, MPI_INT, MPI_SUM, w->window);
        break;
    case GET_ACCUMULATE:
        MPI_Get_accumulate(source, n, MPI_INT, found, n, MPI_INT, target, at, n, MPI_INT, MPI_SUM,
                           w->window);
        break;
    case FETCH_AND_OP:
        MPI_Fetch_and_op(source, found, MPI_INT, target, at, MPI_SUM, w->window);
        break;
    case COMPARE_AND_SWAP:
        MPI_Compare_and_swap(source, zero, found, MPI_INT, target, at, w->window);
        break;
    case RPUT:
        MPI_Rput(source, n, MPI_INT, target, at, n, MPI_INT, w->window, &w->requests[target]);
        break;
    default: MPI_Rget(found, n, MPI_INT, target, at, n, MPI_INT, w->window, &w->requests[target]);
    }
}

/* Compare the results of the epoch's function on a target. */
static void access_check(const struct worker *w, int target)
{
    if (memcmp(w->found[target], w->wanted[target], (size_t)w->lengths[target] * sizeof(int)) != 0)
        fail("wrong result of a one-sided call");
}

/* Functions with requests are for passive targets only; elsewhere others are drawn. */
static void access_active(struct worker *w, int target)
{
    const uint64_t state = w->private;

    if (random_below(&w->private, FUNCTIONS) >= RPUT) {
        w->lengths[target] = 0;
        return;
    }
    w->private = state;
    access_start(w, target);
}

static void epoch_fence(struct worker *w)
{
    const int target = random_below(&w->private, size);

    MPI_Win_fence(0, w->window);
    access_active(w, target);
    MPI_Win_fence(0, w->window);
    access_check(w, target);
}

/* Each rank exposes its window to the next one. The end of the exposure is tested in vain. */
static void epoch_groups(struct worker *w)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const int tests = random_below(&w->private, 2);
    MPI_Group all, origin, target;
    int flag = 0;

    MPI_Comm_group(w->comm, &all);
    MPI_Group_incl(all, 1, &before, &origin);
    MPI_Group_incl(all, 1, &next, &target);
    MPI_Win_post(origin, 0, w->window);
    MPI_Win_start(target, 0, w->window);
    access_active(w, next);
    MPI_Win_complete(w->window);
    if (!tests)
        MPI_Win_wait(w->window);
    for (; tests && !flag; sched_yield())
        MPI_Win_test(w->window, &flag);
    access_check(w, next);
    MPI_Group_free(&all);
    MPI_Group_free(&origin);
    MPI_Group_free(&target);
}

/* Complete a function: by its request, or by a flush. */
static void access_end(struct worker *w, int target)
{
    int flag = w->requests[target] == MPI_REQUEST_NULL;
    const int local = random_below(&w->private, 2);

    if (local)
        MPI_Wait(&w->requests[target], MPI_STATUS_IGNORE);
    for (; !local && !flag; sched_yield())
        MPI_Test(&w->requests[target], &flag, MPI_STATUS_IGNORE);
    if (local)
        MPI_Win_flush_local(target, w->window);
    MPI_Win_flush(target, w->window);
    access_check(w, target);
}

static void epoch_lock(struct worker *w)
{
    const int target = random_below(&w->private, size), accesses = random_below(&w->private, 4);
    const int is_exclusive = random_below(&w->private, 2);

    MPI_Win_lock(is_exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, w->window);
    for (int i = 0; i < accesses; i++) {
        access_start(w, target);
        access_end(w, target);
    }
    MPI_Win_unlock(target, w->window);
}

static void epoch_lock_all(struct worker *w)
{
    MPI_Win_lock_all(0, w->window);
    for (int target = 0; target < size; target++)
        access_start(w, target);
    MPI_Waitall(size, w->requests, MPI_STATUSES_IGNORE);
    if (random_below(&w->private, 2))
        MPI_Win_flush_local_all(w->window);
    MPI_Win_flush_all(w->window);
    for (int target = 0; target < size; target++)
        access_check(w, target);
    MPI_Win_unlock_all(w->window);
}

/* Receive a message from the rank before, in one of the ways that poll in vain. */
static void polls(struct worker *w)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const int way = random_below(&w->private, 5), late = random_below(&w->private, 3) * 100;
    int out = 100 + rank, in = -1, flag = 0, index;
    MPI_Request requests[2];
    MPI_Message message;

    if (way >= 2)
        MPI_Irecv(&in, 1, MPI_INT, before, 7, w->comm, &requests[1]);
    for (int i = 0; i < late; i++)
        MPI_Iprobe(before, 8, w->comm, &flag, MPI_STATUS_IGNORE); /* no message has this tag */
    MPI_Isend(&out, 1, MPI_INT, next, 7, w->comm, &requests[0]);
    for (flag = 0; !flag; sched_yield())
        switch (way) {
        case 0: MPI_Iprobe(before, 7, w->comm, &flag, MPI_STATUS_IGNORE); break;
        case 1: MPI_Improbe(before, 7, w->comm, &flag, &message, MPI_STATUS_IGNORE); break;
        case 2: MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE); break;
        case 3: MPI_Testany(1, &requests[1], &index, &flag, MPI_STATUS_IGNORE); break;
        default: MPI_Testall(1, &requests[1], &flag, MPI_STATUSES_IGNORE);
        }
    if (way == 0)
        MPI_Recv(&in, 1, MPI_INT, before, 7, w->comm, MPI_STATUS_IGNORE);
    if (way == 1)
        MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    if (in != 100 + before)
        fail("wrong message");
}

static void *work(void *argument)
{
    struct worker *const w = argument;

    for (int i = 0; i < rounds; i++) {
        switch (random_below(&w->common, EPOCHS)) {
        case FENCE: epoch_fence(w); break;
        case GROUPS: epoch_groups(w); break;
        case LOCK: epoch_lock(w); break;
        case LOCK_ALL: epoch_lock_all(w); break;
        default: polls(w);
        }
        /* An epoch with locks and one without must not overlap. */
        MPI_Barrier(w->comm);
    }
    MPI_Win_lock_all(0, w->window);
    MPI_Win_sync(w->window);
    MPI_Win_unlock_all(w->window);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    int level, count = argc > 3 ? atoi(argv[3]) : 1, mine[MOST * LONGEST];

    MPI_Init_thread(&argc, &argv, count > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rounds = atoi(argv[2]);
    for (int i = 0; i < count; i++) {
        struct worker *const w = &workers[i];

        w->common = (uint64_t)atoll(argv[1]) + (uint64_t)i * 1000003u;
        w->private = w->common ^ ((uint64_t)(rank + 1) << 40);
        MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
        MPI_Win_allocate((MPI_Aint)(size * LONGEST) * (MPI_Aint)sizeof(int), sizeof(int),
                         MPI_INFO_NULL, w->comm, &w->cells, &w->window);
        memset(w->cells, 0, (size_t)(size * LONGEST) * sizeof(int));
        MPI_Barrier(w->comm);
    }
    for (int i = 1; i < count; i++)
        pthread_create(&threads[i], NULL, work, &workers[i]);
    work(&workers[0]);
    for (int i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++) {
        struct worker *const w = &workers[i];

        /* The owner of a window compares it with what all origins expect. */
        MPI_Alltoall(w->expected, LONGEST, MPI_INT, mine, LONGEST, MPI_INT, w->comm);
        if (memcmp(mine, w->cells, (size_t)(size * LONGEST) * sizeof(int)) != 0)
            fail("wrong contents of a window");
        MPI_Win_free(&w->window);
        MPI_Comm_free(&w->comm);
    }
    for (int f = 0; f < FUNCTIONS; f++) {
        long calls = 0, bytes = 0;

        for (int i = 0; i < count; i++) {
            calls += workers[i].calls[f];
            bytes += workers[i].bytes[f];
        }
        printf("%d %s %ld %ld\n", rank, names[f], calls, bytes);
    }
    MPI_Finalize();
    return 0;
}
