/* Programs of live_causes.py without messages between two ranks; see live_work.h. */
#include "live_work.h"
#include <fcntl.h>
#include <pthread.h>

enum { BLOCK = 1 << 20, ITEMS = 1024 };

static char block[BLOCK];

static void step_plain(int step)
{
    (void)step;
    work(2000);
    late(2, 6000);
    meet();
}

/* Both ranks compute. */
static void step_compute(int step)
{
    (void)step;
    compute(3000);
    if (is_late(1)) {
        plant_begin();
        compute(5000);
        plant_end();
    }
    meet();
}

/* One rank reads memory that grows from step to step. */
static void step_memory(int step)
{
    enum { LARGEST = 96 << 20, LINE = 64 };
    static volatile char *memory;

    if (memory == NULL) {
        memory = malloc(LARGEST);
        memset((char *)memory, 1, LARGEST);
        meet();
    }
    work(1000);
    if (is_late(1)) {
        plant_begin();
        for (int pass = 0; pass < 4; pass++)
            for (size_t at = 0; at < (size_t)step * BLOCK && at < LARGEST; at += LINE)
                (void)memory[at];
        plant_end();
    }
    meet();
}

static int open_file(void)
{
    char path[] = "live-causes-XXXXXX";
    const int file = mkstemp(path);

    if (file < 0)
        abort();
    unlink(path);
    return file;
}

static void write_file(int us)
{
    static int file = -1;
    const double end = now(CLOCK_MONOTONIC) + 1e3 * factor * us;

    if (file < 0)
        file = open_file();
    plant_begin();
    do {
        if (pwrite(file, block, sizeof block, 0) < 0 || fsync(file) != 0)
            abort();
    } while (now(CLOCK_MONOTONIC) < end);
    plant_end();
}

/* Rank 0 writes a checkpoint every tenth step. */
static void step_checkpoint(int step)
{
    work(2000);
    meet();
    if (step % 10 == 9 && is_late(0))
        write_file(20000);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One rank reads a file before each alltoall. */
static void step_file_reader(int step)
{
    static char sent[ITEMS], received[ITEMS];
    static int file = -1;

    (void)step;
    if (file < 0) {
        file = open_file();
        for (int i = 0; i < 32; i++)
            if (write(file, block, sizeof block) < 0)
                abort();
        fsync(file);
        meet();
    }
    work(2000);
    if (is_late(3)) {
        plant_begin();
        for (const double end = now(CLOCK_MONOTONIC) + 6e6 * factor; now(CLOCK_MONOTONIC) < end;) {
            posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
            if (pread(file, block, sizeof block, 0) < 0)
                abort();
        }
        plant_end();
    }
    MPI_Alltoall(sent, 8, MPI_CHAR, received, 8, MPI_CHAR, MPI_COMM_WORLD);
}

static void step_late_start(int step)
{
    work(2000);
    if (step == 0)
        late(5, 400000);
    meet();
}

static void step_from_middle(int step)
{
    work(2000);
    if (step >= 30)
        late(1, 6000);
    meet();
}

static void step_until_middle(int step)
{
    work(2000);
    if (step < 24)
        late(3, 6000);
    meet();
}

static void step_bcast_root(int step)
{
    (void)step;
    work(2000);
    late(0, 6000);
    MPI_Bcast(block, 64, MPI_CHAR, 0, MPI_COMM_WORLD);
    work(1000);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The root works alone between a reduce and a bcast. */
static void step_serial_root(int step)
{
    double one = 1, sum;

    (void)step;
    work(2000);
    MPI_Reduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    late(0, 5000);
    MPI_Bcast(&sum, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

/* Each rank packs a block whose size depends on the rank; the largest one takes longest. */
static void step_uneven_gather(int step)
{
    enum { LARGEST = 4096 };
    static char sent[LARGEST], received[8 * LARGEST];
    int counts[64], places[64];

    (void)step;
    for (int i = 0; i < ranks; i++) {
        counts[i] = i == 3 ? LARGEST : 64;
        places[i] = i == 0 ? 0 : places[i - 1] + counts[i - 1];
    }
    work(2000);
    late(3, 6000);
    MPI_Gatherv(sent, counts[rank], MPI_CHAR, received, counts, places, MPI_CHAR, 0,
                MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void step_front(int step)
{
    work(2000);
    late(step % ranks, 6000);
    meet();
}

static void step_two_causes(int step)
{
    (void)step;
    work(2000);
    late(2, 7000);
    meet();
    work(1000);
    if (rank == 6)
        work(3000);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The ranks of the second row work longer before the collective of their row. */
static void step_slow_row(int step)
{
    static MPI_Comm row, column;
    double one = 1, sum;

    if (step == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, rank / 4, rank, &row);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 4, rank, &column);
    }
    work(2000);
    if (rank / 4 == 1)
        late(rank, 5000);
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, row);
    work(1000);
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_MAX, column);
}

static void step_late_wait(int step)
{
    double one = 1, sum;
    MPI_Request request;

    (void)step;
    work(2000);
    MPI_Iallreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    work(1000);
    late(1, 6000);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One rank puts data into the memory of another one for long. */
static void step_lock(int step)
{
    static char *memory;
    static MPI_Win window;

    if (step == 0)
        MPI_Win_allocate(BLOCK, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    work(2000);
    if (is_late(2)) {
        plant_begin();
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        for (const double end = now(CLOCK_MONOTONIC) + 6e6 * factor; now(CLOCK_MONOTONIC) < end;) {
            MPI_Put(block, BLOCK, MPI_CHAR, 0, 0, BLOCK, MPI_CHAR, window);
            MPI_Win_flush(0, window);
        }
        MPI_Win_unlock(0, window);
        plant_end();
    }
    meet();
}

static void step_fence(int step)
{
    static char *memory;
    static MPI_Win window;

    if (step == 0)
        MPI_Win_allocate(BLOCK, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    work(2000);
    late(2, 6000);
    MPI_Win_fence(0, window);
    MPI_Put(block, 64, MPI_CHAR, (rank + 1) % ranks, 0, 64, MPI_CHAR, window);
    MPI_Win_fence(0, window);
}

static void *work_of_thread(void *us)
{
    work(*(int *)us);
    return NULL;
}

/* Threads share the work of a rank; one thread of rank 2 takes longer. */
static void step_threads(int step)
{
    pthread_t threads[3];
    int us[3] = {2000, 2000, 2000};

    (void)step;
    if (is_late(2))
        us[1] += 6000;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work_of_thread, &us[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (is_late(2))
        planted_ns += 6e6 * factor;
    meet();
}

/* Each rank has more work than the rank before. */
static void step_gradient(int step)
{
    (void)step;
    work(1000);
    late(rank, 1000 * rank);
    meet();
}

/* One rank is very late, once. */
static void step_hiccup(int step)
{
    work(2000);
    if (step == 17)
        late(2, 250000);
    meet();
}

/* Half of the ranks work longer. */
static void step_half(int step)
{
    (void)step;
    work(2000);
    if (rank % 2 == 1)
        late(rank, 5000);
    meet();
}

#define PROGRAM(name) {#name, step_##name}
static const struct program programs[] = {
    PROGRAM(plain),       PROGRAM(compute),     PROGRAM(memory),        PROGRAM(checkpoint),
    PROGRAM(file_reader), PROGRAM(late_start),  PROGRAM(from_middle),   PROGRAM(until_middle),
    PROGRAM(bcast_root),  PROGRAM(serial_root), PROGRAM(uneven_gather), PROGRAM(front),
    PROGRAM(two_causes),  PROGRAM(slow_row),    PROGRAM(late_wait),     PROGRAM(lock),
    PROGRAM(fence),       PROGRAM(threads),     PROGRAM(gradient),      PROGRAM(hiccup),
    PROGRAM(half),
};

int main(int argc, char **argv)
{
    return run(argc, argv, programs, sizeof programs / sizeof *programs);
}
