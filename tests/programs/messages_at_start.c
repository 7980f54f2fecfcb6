/* Writes the messages and bytes that this rank has sent to each other rank, from Open MPI's
 * monitoring (pml_monitoring_enable=1): after MPI_Init to RANK.start, before MPI_Finalize to
 * RANK.end. Arguments: a folder, and the number of 8-byte reductions in between. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 2, MOST = 1024 };

static const char *const names[KINDS] = {"pml_monitoring_messages_count",
                                         "pml_monitoring_messages_size"};

static void write_sent(const char *folder, const char *when)
{
    static unsigned long sent[KINDS][MOST];
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    int rank, size, level, index, count;
    char path[4096];

    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    MPI_T_pvar_session_create(&session);
    for (int kind = 0; kind < KINDS; kind++) {
        if (MPI_T_pvar_get_index(names[kind], MPI_T_PVAR_CLASS_SIZE, &index) != MPI_SUCCESS ||
            MPI_T_pvar_handle_alloc(session, index, &world, &handle, &count) != MPI_SUCCESS ||
            MPI_T_pvar_start(session, handle) != MPI_SUCCESS || size > MOST)
            MPI_Abort(world, 1);
        MPI_T_pvar_read(session, handle, sent[kind]);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize(); /* else what is sent until MPI_Finalize would not be written */
    snprintf(path, sizeof path, "%s/%d.%s", folder, rank, when);
    FILE *const out = fopen(path, "w");

    if (out == NULL)
        MPI_Abort(world, 2);
    for (int other = 0; other < size; other++)
        fprintf(out, "%lu %lu\n", sent[0][other], sent[1][other]);
    fclose(out);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    write_sent(argv[1], "start");
    for (int i = 0; i < atoi(argv[2]); i++) {
        double mine = i, all;

        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    write_sent(argv[1], "end");
    MPI_Finalize();
    return 0;
}
