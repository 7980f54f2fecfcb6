/* Prints the names of MPICH's algorithms, from the descriptions of the control variables that
 * select them: operation and name, one per line. */
#include <ctype.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 8192 };

static void print(const char *variable, char *description)
{
    char name[64], *rest = NULL;

    for (char *line = strtok_r(description, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "%63s -", name) != 1 || strstr(line, " - ") == NULL ||
            strcmp(name, "auto") == 0)
            continue;
        for (const char *c = variable; strncmp(c, "_INTRA_", 7) != 0; c++)
            putchar(tolower(*c));
        printf(" %s\n", name);
    }
}

int main(void)
{
    static const char before[] = "MPIR_CVAR_";
    int count, provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_cvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char name[256], description[ROOM];
        int length = sizeof name, room = sizeof description, verbosity, bind, scope;
        MPI_Datatype type;
        MPI_T_enum values;

        if (MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &values, description, &room,
                                &bind, &scope) == MPI_SUCCESS &&
            strncmp(name, before, sizeof before - 1) == 0 &&
            strstr(name, "_INTRA_ALGORITHM") != NULL)
            print(name + sizeof before - 1, description);
    }
    MPI_T_finalize();
    return 0;
}
