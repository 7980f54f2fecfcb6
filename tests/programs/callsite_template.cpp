// All-to-all calls from one line of a template, and a barrier in a library that lies beside it.
#include <mpi.h>

#include <cstdlib>
#include <vector>

namespace layer {
void sync(MPI_Comm comm);
#ifdef LAYER
void sync(MPI_Comm comm) { MPI_Barrier(comm); }
#endif
}  // namespace layer

#ifndef LAYER
namespace physics {
template <class T> struct Step {
    std::vector<T> mine, all;
    explicit Step(int n) : mine(n), all(n) {}
    void exchange()
    {
        MPI_Alltoall(mine.data(), 64, MPI_DOUBLE, all.data(), 64, MPI_DOUBLE, MPI_COMM_WORLD);
    }
};
}  // namespace physics

int main(int argc, char **argv)
{
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    physics::Step<double> step(64 * size);
    for (int i = 0; i < std::atoi(argv[1]); i++)
        step.exchange();
    layer::sync(MPI_COMM_WORLD);
    MPI_Finalize();
}
#endif
