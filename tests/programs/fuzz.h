/* Random collectives (fuzz_collectives.c): what its parts share. */
#ifndef FUZZ_H
#define FUZZ_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>

enum { MOST_COMMS = 8, BYTES = 1 << 20, GAP = 0x5a5a5a5a, MATRIX = 4, LAYOUTS = 3 };

struct comm {
    MPI_Comm comm;
    int rank, size, remote; /* remote: size of the other group, or 0 */
    int bias;               /* differs between the groups of an inter-communicator */
};

struct thread {
    uint64_t shared, own; /* series: of all ranks, of this one */
    struct comm comms[MOST_COMMS];
    int count, number;
    long calls;
};

extern long seed;
extern MPI_Datatype layouts[LAYOUTS], matrix;
extern const int extents[LAYOUTS], places[LAYOUTS]; /* in ints */
extern MPI_Op product;
extern atomic_int wrong;

struct buffer {
    int *memory, elements, layout;
    void *start; /* what MPI gets */
};

/* Shares of all ranks: equal, or (v) some of them 0; displacements with holes between. */
struct shares {
    int counts[64], displs[64], total;
};

/* ---- fuzz_data.c */

uint32_t draw_from(uint64_t *state, uint32_t below);
uint32_t draw(struct thread *t, uint32_t below);
int draw_count(struct thread *t, int most);
int own_layout(struct thread *t);
struct shares shares_draw(struct thread *t, int ranks, int v);
void complain(const struct thread *t, const char *what, int at);
struct buffer buffer_make(int elements, int layout);
void buffer_end(const struct thread *t, const char *what, struct buffer *b);
int value(const struct thread *t, int rank, int i);
void fill(const struct thread *t, const struct buffer *b, int first, int count, int rank, int from);
void check(const struct thread *t, const char *what, const struct buffer *b, int first, int count,
           int rank, int from);
void wait_for(MPI_Request *r);

/* ---- fuzz_moves.c */

void broadcast(struct thread *t, struct comm *c);
void gather(struct thread *t, struct comm *c);
void scatter(struct thread *t, struct comm *c);
void allgather(struct thread *t, struct comm *c);
void alltoall(struct thread *t, struct comm *c);

/* ---- fuzz_reductions.c */

void multiply(void *in, void *inout, int *count, MPI_Datatype *type);
void reduction(struct thread *t, struct comm *c);

#endif
