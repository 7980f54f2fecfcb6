/* Two threads per rank each create a communicator from a group of all ranks: sessions_crossed
 * DELAY_US
 *
 * Odd ranks start the second communicator first, and the other one DELAY_US later.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static MPI_Group all;
static int delay_us[2];

static void *work(void *given)
{
    const int *const delay = given;
    char tag[8];
    MPI_Comm comm;

    snprintf(tag, sizeof tag, "t%d", (int)(delay - delay_us));
    usleep((useconds_t)*delay);
    MPI_Comm_create_from_group(all, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    for (int i = 0; i < 50; i++)
        MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    return NULL;
}

int main(int argc, char **argv)
{
    MPI_Session session;
    MPI_Info info;
    pthread_t threads[2];
    int rank;

    if (argc != 2)
        return 2;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Info_free(&info);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    MPI_Group_rank(all, &rank);
    delay_us[1 - rank % 2] = atoi(argv[1]);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &delay_us[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    MPI_Group_free(&all);
    MPI_Session_finalize(&session);
    return 0;
}
