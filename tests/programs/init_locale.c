/* Sets the locale of its environment before MPI_Init, and prints a number before and after MPI. */
#include <locale.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int one = 1, sum, rank;

    setlocale(LC_ALL, "");
    printf("%.1f", 1.5);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 50; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    printf(" %.1f\n", rank + 1.5);
    return 0;
}
