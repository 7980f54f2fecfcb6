/* A program that uses MPI_T itself, before and after MPI_Init. Prints its thread level, the number
 * of variables, and the value that it has set for one of them. Argument: the name of a control
 * variable of one integer. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int find(const char *wanted)
{
    int count = 0;

    MPI_T_cvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char name[256], text[2];
        int length = sizeof name, room = sizeof text, verbosity, bind, scope;
        MPI_Datatype type;
        MPI_T_enum values;

        if (MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &values, text, &room, &bind,
                                &scope) == MPI_SUCCESS &&
            strcmp(name, wanted) == 0)
            return i;
    }
    return -1;
}

static int value_of(const char *name, const int *wanted)
{
    MPI_T_cvar_handle handle;
    int count, value = -1;

    if (MPI_T_cvar_handle_alloc(find(name), NULL, &handle, &count) != MPI_SUCCESS)
        return -1;
    if (wanted != NULL)
        MPI_T_cvar_write(handle, wanted);
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
    return value;
}

int main(int argc, char **argv)
{
    int level, provided, count = 0, rank;
    const int set = 3;

    MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
    const int before = value_of(argv[1], &set);

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Query_thread(&level);
    MPI_T_cvar_get_num(&count);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    const int after = value_of(argv[1], NULL);

    MPI_T_finalize();
    MPI_Query_thread(&provided);
    if (rank == 0)
        printf("level %d %d, %d variables, set to %d %d\n", level == MPI_THREAD_MULTIPLE,
               provided == MPI_THREAD_MULTIPLE, count, before, after);
    MPI_Finalize();
    return 0;
}
