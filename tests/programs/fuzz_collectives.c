/* Random collectives with random arguments, each result checked.
 *
 *     fuzz_collectives SEED CALLS THREADS
 *
 * All ranks draw from one series per thread, so that they make the same calls: operation, number of
 * elements (0 up to 1 MB in all), layouts, root, MPI_IN_PLACE, blocking or not. Communicators are
 * duplicated, split, bridged and freed. Calls that are wrong on all members must return an error.
 * Each rank draws separately when it is late, and the layout of its buffers. Each thread has
 * separate communicators. An element is an int, alone or with gaps on either side that must not
 * change. Reductions also use matrices, because their product does not commute. Exits with 1 after
 * a wrong result, and prints its location.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fuzz.h"

static long wanted;

/* ---- wrong calls, equal on all members */

static void mistake(struct thread *t, struct comm *c)
{
    int data[4] = {1, 2, 3, 4}, error = MPI_SUCCESS;

    switch (draw(t, 5)) {
    case 0: error = MPI_Bcast(data, 1, MPI_INT, c->size + 3, c->comm); break;
    case 1: error = MPI_Bcast(data, -1, MPI_INT, 0, c->comm); break;
    case 2: error = MPI_Gather(data, 1, MPI_INT, data + 1, 1, MPI_INT, -7, c->comm); break;
    case 3: error = MPI_Allreduce(data, data + 1, 1, MPI_INT, MPI_OP_NULL, c->comm); break;
    default: error = MPI_Allgather(data, -1, MPI_INT, data, 1, MPI_INT, c->comm); break;
    }
    if (error == MPI_SUCCESS)
        complain(t, "a mistake's code", 0);
}

/* ---- communicators */

static void comm_add(struct thread *t, MPI_Comm made, int bias)
{
    struct comm *const c = &t->comms[t->count++];
    int inter = 0;

    *c = (struct comm){.comm = made, .bias = bias};
    MPI_Comm_rank(made, &c->rank);
    MPI_Comm_size(made, &c->size);
    MPI_Comm_test_inter(made, &inter);
    if (inter)
        MPI_Comm_remote_size(made, &c->remote);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
}

/* The list is as long on all ranks, and each place has the same kind of communicator. */
static void comm_make(struct thread *t)
{
    struct comm *const base = &t->comms[0];
    const int how = (int)draw(t, 4), from = (int)draw(t, (uint32_t)t->count);
    MPI_Comm made = MPI_COMM_NULL, half;
    const int second = base->rank >= (base->size + 1) / 2;

    if (t->count == MOST_COMMS)
        return;
    if (how == 0) {
        MPI_Comm_dup(t->comms[from].comm, &made);
        comm_add(t, made, t->comms[from].bias);
    } else if (how == 1) {
        MPI_Comm_split(base->comm, base->rank % 2, draw(t, 2) ? -base->rank : 0, &made);
        comm_add(t, made, 0);
    } else if (how == 2 && base->size > 1) {
        MPI_Comm_split(base->comm, second, 0, &half);
        MPI_Intercomm_create(half, 0, base->comm, second ? 0 : (base->size + 1) / 2, 77, &made);
        comm_add(t, made, second);
        MPI_Comm_free(&half);
    } else {
        const int dims[] = {base->size}, periods[] = {1};

        MPI_Cart_create(base->comm, 1, dims, periods, 0, &made);
        comm_add(t, made, 0);
    }
}

static void comm_drop(struct thread *t)
{
    if (t->count < 2)
        return;
    const int which = 1 + (int)draw(t, (uint32_t)t->count - 1);

    MPI_Comm_free(&t->comms[which].comm);
    t->comms[which] = t->comms[--t->count];
}

/* ---- turns */

static void call(struct thread *t, struct comm *c, uint32_t what)
{
    if (what < 6 && c->remote == 0)
        mistake(t, c);
    else if (what < 15)
        MPI_Barrier(c->comm);
    else if (c->remote > 0)
        (what % 3 == 0 ? alltoall : allgather)(t, c);
    else if (what < 35)
        broadcast(t, c);
    else if (what < 45)
        gather(t, c);
    else if (what < 55)
        scatter(t, c);
    else if (what < 67)
        allgather(t, c);
    else if (what < 78)
        alltoall(t, c);
    else
        reduction(t, c);
}

static void turn(struct thread *t)
{
    struct comm *const c = &t->comms[draw(t, (uint32_t)t->count)];
    const uint32_t what = draw(t, 100);

    t->calls++;
    if (draw_from(&t->own, 1000) == 0)
        usleep(draw_from(&t->own, 1000));
    if (what < 2) {
        comm_make(t);
    } else if (what < 4) {
        comm_drop(t);
    } else { /* the parts of a split communicator are of different sizes, and draw differently */
        const uint64_t shared = t->shared;

        call(t, c, what);
        t->shared = shared;
    }
}

static void *run(void *given)
{
    struct thread *const t = given;

    while (t->calls < wanted)
        turn(t);
    while (t->count > 0)
        MPI_Comm_free(&t->comms[--t->count].comm);
    return NULL;
}

int main(int argc, char **argv)
{
    const int threads = argc > 3 ? atoi(argv[3]) : 1;
    int provided, rank, all = 0;
    pthread_t made[16];
    static struct thread state[16];

    seed = argc > 1 ? atol(argv[1]) : 1;
    wanted = (argc > 2 ? atol(argv[2]) : 1000) / threads; /* of each thread */
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    layouts[0] = MPI_INT;
    for (int i = 1; i < LAYOUTS; i++) {
        const int length = 1;
        const MPI_Aint place = (MPI_Aint)sizeof(int) * places[i];
        MPI_Datatype moved;

        MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &moved);
        MPI_Type_create_resized(moved, 0, (MPI_Aint)sizeof(int) * extents[i], &layouts[i]);
        MPI_Type_commit(&layouts[i]);
        MPI_Type_free(&moved);
    }
    MPI_Type_contiguous(MATRIX, MPI_UNSIGNED, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &product);
    for (int i = 0; i < threads; i++) {
        MPI_Comm base;

        state[i].shared = (uint64_t)seed * 1000 + (uint64_t)i;
        state[i].own = state[i].shared * 77 + (uint64_t)rank;
        state[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &base);
        comm_add(&state[i], base, 0);
    }
    for (int i = 1; i < threads; i++)
        pthread_create(&made[i], NULL, run, &state[i]);
    run(&state[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(made[i], NULL);
    int mine = atomic_load(&wrong);

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("seed %ld: %ld calls, %d wrong\n", seed, wanted * threads, all);
    MPI_Op_free(&product);
    MPI_Type_free(&matrix);
    for (int i = 1; i < LAYOUTS; i++)
        MPI_Type_free(&layouts[i]);
    MPI_Finalize();
    return all > 0;
}
