/* Programs of live_causes.py whose ranks send messages; see live_work.h. */
#include "live_work.h"

enum { LARGE = 1 << 20, TAG = 7 };

static char sent[4][LARGE], received[4][LARGE];

static int right_of(int by)
{
    return (rank + by + ranks) % ranks;
}

/* Start an exchange with both neighbours in a ring. */
static void start_exchange(MPI_Request r[4])
{
    MPI_Irecv(received[0], 64, MPI_CHAR, right_of(-1), TAG, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(received[1], 64, MPI_CHAR, right_of(1), TAG, MPI_COMM_WORLD, &r[1]);
    MPI_Isend(sent[0], 64, MPI_CHAR, right_of(1), TAG, MPI_COMM_WORLD, &r[2]);
    MPI_Isend(sent[1], 64, MPI_CHAR, right_of(-1), TAG, MPI_COMM_WORLD, &r[3]);
}

static void exchange(void)
{
    MPI_Request r[4];

    start_exchange(r);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
}

static void send_to(int to, int bytes)
{
    MPI_Send(sent[0], bytes, MPI_CHAR, to, TAG, MPI_COMM_WORLD);
}

static void receive_from(int from, int bytes)
{
    MPI_Recv(received[0], bytes, MPI_CHAR, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The rank that is late in the rings: rank 3, or rank 1 of two. */
static int slow_rank(void)
{
    return ranks > 3 ? 3 : 1;
}

static void step_halo(int step)
{
    (void)step;
    for (int i = 0; i < 5; i++) {
        work(1000);
        late(slow_rank(), i == 0 ? 8000 : 0);
        exchange();
    }
    meet();
}

static void step_halo_alone(int step)
{
    (void)step;
    work(2000);
    late(slow_rank(), 5000);
    exchange();
}

static void step_halo_compute(int step)
{
    (void)step;
    compute(2000);
    if (is_late(1)) {
        plant_begin();
        compute(5000);
        plant_end();
    }
    exchange();
    meet();
}

/* The delay begins in the middle of the run, and grows. */
static void step_halo_growing(int step)
{
    work(2000);
    late(6, 400 * (step - 30));
    exchange();
    meet();
}

static void step_halo_periodic(int step)
{
    work(2000);
    late(6, step % 7 == 2 ? 12000 : 0);
    exchange();
    meet();
}

static void step_halo_front(int step)
{
    work(2000);
    late(step / 20 % ranks, 6000);
    exchange();
    meet();
}

static void step_halo_hiccup(int step)
{
    work(2000);
    late(4, step == 21 ? 250000 : 0);
    exchange();
    meet();
}

static void step_halo_node(int step)
{
    (void)step;
    work(2000);
    if (rank / 4 == 1)
        late(rank, 4000);
    exchange();
    meet();
}

static void step_halo_two(int step)
{
    (void)step;
    work(2000);
    late(1, 7000);
    exchange();
    if (rank == 5)
        work(3000);
    work(1000);
    meet();
}

/* Work before the completion of the messages hides a part of the waiting. */
static void step_overlap(int step)
{
    MPI_Request r[4];

    (void)step;
    work(1000);
    start_exchange(r);
    work(2000);
    late(5, 6000);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    meet();
}

/* An exchange with four neighbours in a periodic grid of 4 x 4 ranks. */
static void step_grid(int step)
{
    const int row = rank / 4, column = rank % 4;
    const int to[4] = {row * 4 + (column + 1) % 4, row * 4 + (column + 3) % 4,
                       (row + 1) % 4 * 4 + column, (row + 3) % 4 * 4 + column};
    MPI_Request r[8];

    (void)step;
    work(2000);
    late(5, 6000);
    for (int i = 0; i < 4; i++)
        MPI_Irecv(received[i], 64, MPI_CHAR, to[i], TAG + i / 2, MPI_COMM_WORLD, &r[i]);
    for (int i = 0; i < 4; i++)
        MPI_Isend(sent[i], 64, MPI_CHAR, to[i], TAG + i / 2, MPI_COMM_WORLD, &r[4 + i]);
    MPI_Waitall(8, r, MPI_STATUSES_IGNORE);
    if (step % 10 == 9)
        meet();
}

static void step_pipeline(int step)
{
    (void)step;
    if (rank > 0)
        receive_from(rank - 1, 64);
    work(2000);
    late(3, 4000);
    if (rank < ranks - 1)
        send_to(rank + 1, 64);
}

/* Rank 0 sends a task to each worker and receives the results in order. */
static void step_workers(int step)
{
    (void)step;
    if (rank == 0) {
        for (int worker = 1; worker < ranks; worker++)
            send_to(worker, 64);
        for (int worker = 1; worker < ranks; worker++)
            receive_from(worker, 64);
    } else {
        receive_from(0, 64);
        work(2000);
        late(3, 6000);
        send_to(0, 64);
    }
}

static void step_any_source(int step)
{
    (void)step;
    if (rank == 0) {
        for (int worker = 1; worker < ranks; worker++)
            receive_from(MPI_ANY_SOURCE, 64);
        for (int worker = 1; worker < ranks; worker++)
            send_to(worker, 64);
    } else {
        work(2000);
        late(2, 6000);
        send_to(0, 64);
        receive_from(0, 64);
    }
}

/* The master works alone before it sends the tasks. */
static void step_slow_master(int step)
{
    (void)step;
    if (rank == 0) {
        late(0, 5000);
        for (int worker = 1; worker < ranks; worker++)
            MPI_Send(sent[0], 64, MPI_CHAR, worker, TAG, MPI_COMM_WORLD);
        for (int worker = 1; worker < ranks; worker++)
            MPI_Recv(received[0], 64, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    } else {
        receive_from(0, 64);
        work(2000);
        send_to(0, 64);
    }
}

/* A wavefront over a grid of three columns: from the first rank to the last one, and back. */
static void step_sweep(int step)
{
    const int rows = ranks / 3, by = step % 2 == 0 ? -1 : 1;
    const int row = rank / 3, column = rank % 3;
    const bool has_row[2] = {row + by >= 0 && row + by < rows, row - by >= 0 && row - by < rows};
    const bool has_column[2] = {column + by >= 0 && column + by < 3,
                                column - by >= 0 && column - by < 3};

    if (has_row[0])
        receive_from(rank + 3 * by, 64);
    if (has_column[0])
        receive_from(rank + by, 64);
    work(1000);
    late(4, 5000);
    if (has_row[1])
        send_to(rank - 3 * by, 64);
    if (has_column[1])
        send_to(rank - by, 64);
}

/* Senders of large messages wait for a late receiver. */
static void step_rendezvous(int step)
{
    (void)step;
    work(2000);
    if (rank % 2 == 0) {
        MPI_Ssend(sent[0], LARGE, MPI_CHAR, rank + 1, TAG, MPI_COMM_WORLD);
    } else {
        late(5, 6000);
        MPI_Recv(received[0], LARGE, MPI_CHAR, rank - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    meet();
}

static void step_waitany(int step)
{
    MPI_Request r[4];

    (void)step;
    work(2000);
    late(2, 6000);
    start_exchange(r);
    for (int i = 0, at; i < 4; i++)
        MPI_Waitany(4, r, &at, MPI_STATUS_IGNORE);
    meet();
}

/* The ranks ask again and again whether messages are complete. */
static void step_testsome(int step)
{
    MPI_Request r[4];
    int open = 4, done, indices[4];

    (void)step;
    work(2000);
    late(2, 6000);
    start_exchange(r);
    while (open > 0) {
        MPI_Testsome(4, r, &done, indices, MPI_STATUSES_IGNORE);
        if (done > 0)
            open -= done;
        else
            sched_yield();
    }
    meet();
}

static void step_neighbours(int step)
{
    static MPI_Comm ring;

    if (step == 0) {
        const int whole = ranks, periodic = 1;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &whole, &periodic, 0, &ring);
    }
    work(2000);
    late(4, 6000);
    MPI_Neighbor_alltoall(sent[0], 64, MPI_CHAR, received[0], 64, MPI_CHAR, ring);
}

static void step_persistent(int step)
{
    static MPI_Request r[4];

    if (step == 0) {
        for (int i = 0; i < 2; i++) {
            const int peer = right_of(2 * i - 1);
            MPI_Recv_init(received[i], 64, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &r[i]);
            MPI_Send_init(sent[i], 64, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &r[2 + i]);
        }
    }
    work(2000);
    late(1, 6000);
    MPI_Startall(4, r);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    meet();
}

/* Rank 2 marks the parts of its message as ready late. */
static void step_partitioned(int step)
{
    static MPI_Request r[2];

    if (step == 0) {
        MPI_Precv_init(received[0], 4, 64, MPI_CHAR, right_of(-1), TAG, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &r[0]);
        MPI_Psend_init(sent[0], 4, 64, MPI_CHAR, right_of(1), TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &r[1]);
    }
    work(1000);
    MPI_Startall(2, r);
    work(1000);
    late(2, 6000);
    for (int i = 0; i < 4; i++)
        MPI_Pready(i, r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    meet();
}

/* One rank is late from the middle of the run on. */
static void step_sendrecv(int step)
{
    work(2000);
    late(5, step >= 32 ? 6000 : 0);
    MPI_Sendrecv(sent[0], 64, MPI_CHAR, right_of(1), TAG, received[0], 64, MPI_CHAR, right_of(-1),
                 TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    meet();
}

/* Each rank has a load of its own; that of rank 10 is the largest. */
static void step_own_loads(int step)
{
    (void)step;
    work(2000);
    late(rank, rank == 10 ? 6000 : rank * 7919 % 13 * 300);
    exchange();
    meet();
}

#define PROGRAM(name) {#name, step_##name}
static const struct program programs[] = {
    PROGRAM(halo),          PROGRAM(halo_alone),  PROGRAM(halo_compute), PROGRAM(halo_growing),
    PROGRAM(halo_periodic), PROGRAM(halo_front),  PROGRAM(halo_hiccup),  PROGRAM(halo_node),
    PROGRAM(halo_two),      PROGRAM(overlap),     PROGRAM(grid),         PROGRAM(pipeline),
    PROGRAM(workers),       PROGRAM(any_source),  PROGRAM(slow_master),  PROGRAM(sweep),
    PROGRAM(rendezvous),    PROGRAM(waitany),     PROGRAM(testsome),     PROGRAM(neighbours),
    PROGRAM(persistent),    PROGRAM(partitioned), PROGRAM(sendrecv),     PROGRAM(own_loads),
};

int main(int argc, char **argv)
{
    return run(argc, argv, programs, sizeof programs / sizeof *programs);
}
