/* Connects two ranks of one job again: through a port, and through a socket. */
#include <arpa/inet.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int rank;

static void use(MPI_Comm bridge)
{
    int number = rank, sum = 0;

    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, bridge);
    if (sum != 1 - rank)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_disconnect(&bridge);
}

static int socket_to_the_other(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int s = socket(AF_INET, SOCK_STREAM, 0), met = s;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (rank == 0) {
        bind(s, (struct sockaddr *)&address, length);
        listen(s, 1);
        getsockname(s, (struct sockaddr *)&address, &length);
    }
    MPI_Bcast(&address.sin_port, (int)sizeof address.sin_port, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        met = accept(s, NULL, NULL);
    else if (connect(s, (struct sockaddr *)&address, length) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return met;
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm bridge;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && strcmp(argv[1], "join") == 0) {
        MPI_Comm_join(socket_to_the_other(), &bridge);
        use(bridge);
    } else {
        if (rank == 0)
            MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &bridge);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &bridge);
        use(bridge);
    }
    MPI_Finalize();
    return 0;
}
