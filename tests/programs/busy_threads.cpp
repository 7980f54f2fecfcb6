// Rank 1 computes in a new std::thread between two barriers, while its calling thread joins it.
#include <mpi.h>
#include <thread>
#include <time.h>

static double processor_time()
{
    timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

static void compute()
{
    const double until = processor_time() + 0.02;

    while (processor_time() < until)
        continue;
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 20; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            std::thread thread(compute);

            thread.join();
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
