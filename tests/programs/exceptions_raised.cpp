// Ends by a C++ exception that no handler catches, or by abort() without one.
#include <cstdlib>
#include <mpi.h>
#include <stdexcept>
#include <string>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && std::string(argv[1]) == "throw")
        throw std::runtime_error("bad shape");
    std::abort();
}
