/* Nonblocking and persistent collectives on 2 ranks, completed in every possible way. Each section
 * uses a separate communicator, which has the section's name.
 *
 *     requests_completion SIGNS
 */
#include "handshake.h"
#include <mpi.h>

enum { MOST = 12 };
static int rank, data[MOST], sums[MOST];
static MPI_Comm c;
static MPI_Request r[MOST];

static void part(const char *name)
{
    if (c != MPI_COMM_NULL)
        MPI_Comm_free(&c);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_set_name(c, name);
}

static void start(int count)
{
    for (int i = 0; i < count; i++)
        MPI_Iallreduce(&data[i], &sums[i], 1, MPI_INT, MPI_SUM, c, &r[i]);
}

static void waits(void)
{
    int index, count, indices[MOST];

    part("Wait");
    start(1);
    MPI_Wait(r, MPI_STATUS_IGNORE);
    part("Waits in opposite orders");
    start(2);
    MPI_Wait(&r[rank], MPI_STATUS_IGNORE);
    MPI_Wait(&r[1 - rank], MPI_STATUS_IGNORE);
    part("Waitall");
    start(3);
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
    part("Waitall of many");
    start(MOST);
    MPI_Waitall(MOST, r, MPI_STATUSES_IGNORE);
    part("Waitall among others");
    MPI_Irecv(&count, 1, MPI_INT, 1 - rank, 5, c, &r[2]);
    MPI_Isend(&rank, 1, MPI_INT, 1 - rank, 5, c, &r[3]);
    start(1);
    r[4] = r[0];
    r[0] = r[1] = MPI_REQUEST_NULL;
    MPI_Waitall(5, r, MPI_STATUSES_IGNORE);
    part("Waitany");
    start(3);
    for (int i = 0; i < 3; i++)
        MPI_Waitany(3, r, &index, MPI_STATUS_IGNORE);
    part("Waitsome");
    start(3);
    do
        MPI_Waitsome(3, r, &count, indices, MPI_STATUSES_IGNORE);
    while (count != MPI_UNDEFINED);
}

static void tests(void)
{
    int flag, index, count, indices[MOST];

    part("Test");
    start(1);
    do
        MPI_Test(r, &flag, MPI_STATUS_IGNORE);
    while (!flag);
    part("Testall");
    start(3);
    do
        MPI_Testall(3, r, &flag, MPI_STATUSES_IGNORE);
    while (!flag);
    part("Testany");
    start(3);
    do
        MPI_Testany(3, r, &index, &flag, MPI_STATUS_IGNORE);
    while (!flag || index != MPI_UNDEFINED);
    part("Testsome");
    start(3);
    do
        MPI_Testsome(3, r, &count, indices, MPI_STATUSES_IGNORE);
    while (count != MPI_UNDEFINED);
    part("Request_get_status");
    start(1);
    do
        MPI_Request_get_status(r[0], &flag, MPI_STATUS_IGNORE);
    while (!flag);
    MPI_Wait(r, MPI_STATUS_IGNORE);
}

static void persistent(void)
{
    part("persistent");
    MPI_Allreduce_init(&data[0], &sums[0], 1, MPI_INT, MPI_SUM, c, MPI_INFO_NULL, &r[0]);
    MPI_Bcast_init(&data[1], 1, MPI_INT, 0, c, MPI_INFO_NULL, &r[1]);
    for (int i = 0; i < 2; i++) { /* starts in opposite orders */
        MPI_Start(&r[rank]);
        MPI_Start(&r[1 - rank]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Startall(2, r);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE); /* inactive: returns at once */
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    MPI_Barrier_init(c, MPI_INFO_NULL, &r[0]); /* the handle may be an old one */
    MPI_Start(&r[0]);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    MPI_Request_free(&r[0]);
}

static void shared(void)
{
    MPI_Comm_free(&c);
    MPI_Comm_dup(MPI_COMM_SELF, &c);
    MPI_Comm_set_name(c, rank == 0 ? "shared by 0" : "shared by 1");
    for (int i = 0; i < 3; i++)
        MPI_Ibarrier(c, &r[i]);
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
    MPI_Ibarrier(c, &r[0]);
    MPI_Ibarrier(c, &r[1]);
    MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
}

static void sequences(void)
{
    MPI_Comm d;

    part("sequences");
    MPI_Barrier(c);
    MPI_Barrier_init(c, MPI_INFO_NULL, &r[0]);
    MPI_Ibarrier(c, &r[1]);
    MPI_Start(&r[0]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Request_free(&r[0]);
    MPI_Barrier(c); /* 3 */
    MPI_Comm_dup(c, &d);
    MPI_Comm_free(&d);
    MPI_Barrier(c); /* 5 */
    MPI_Pcontrol(0);
    MPI_Barrier(c);
    MPI_Ibarrier(c, &r[1]);
    MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    MPI_Pcontrol(1);
    MPI_Barrier(c); /* 8 */
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    if (MPI_Bcast(data, 1, MPI_INT, 99, c) == MPI_SUCCESS)
        MPI_Abort(c, 1);
    if (MPI_Ibcast(data, 1, MPI_INT, 99, c, &r[1]) == MPI_SUCCESS)
        MPI_Abort(c, 1);
    MPI_Pcontrol(2);
    MPI_Barrier(c); /* 9 */
}

static void late(void)
{
    part("late");
    if (rank == 1)
        signs_come_late(rank, 1, 2, 1, 200);
    MPI_Ibarrier(c, &r[0]);
    if (rank == 0)
        sign_give(rank, 1);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    MPI_Barrier(c);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    c = MPI_COMM_NULL;
    signs_open(argv[1]);
    waits();
    tests();
    persistent();
    shared();
    sequences();
    late();
    MPI_Comm_free(&c);
    MPI_Finalize();
    return 0;
}
