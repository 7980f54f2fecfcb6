/* Shared declarations of the files of execute_cases; execute_cases.c describes the program.
 *
 * execute_buffers.c   numbers that look random, datatypes, buffers that are checked to the last byte
 * execute_moves.c   calls that move data, and barriers
 * execute_reductions.c
 * execute_cases.c   draws the calls and runs them
 */
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef LARGE
typedef MPI_Count count_t;
typedef MPI_Aint place_t;
#define CALL(name) MPI_##name##_c
#define CREATE_OP MPI_Op_create_c
#else
typedef int count_t;
typedef int place_t;
#define CALL(name) MPI_##name
#define CREATE_OP MPI_Op_create
#endif

enum { MOST = 32, MOST_ENTRIES = 24, MARGIN = 64, MOST_THREADS = 8 };
enum { GARBAGE = -4711 }; /* a count that nobody may look at */

/* ---- execute_buffers.c: numbers that look random */

struct random {
    uint64_t state;
};

uint64_t mix(uint64_t a, uint64_t b);
int draw(struct random *r, int below);

/* ---- execute_buffers.c: datatypes, periods of base elements at chosen places */

enum base { CHAR, INT, DOUBLE, CHAR_DOUBLE, DOUBLE_INT, BASES };
struct parts {
    int parts, sizes[2], places[2], period;
};
extern const struct parts bases[BASES];

enum style { PLAIN, CONTIGUOUS, GAPS, REVERSED, RESIZED, LOWER, NEGATIVE, INTERLEAVED, STYLES };
extern const char *const style_names[STYLES];

struct layout {
    MPI_Datatype type;
    enum base base;
    enum style style;
    int units, entries; /* periods and base elements in an item */
    long at[MOST_ENTRIES], extent, low, high;
    int size[MOST_ENTRIES];
};

void layout_make(struct layout *l, enum base base, enum style style, int units, int width);

/* ---- a case */

struct test {
    struct random shared, own; /* equal draws of all ranks, and separate draws of each */
    uint64_t key;
    MPI_Comm comm;
    int me, size, there; /* members of the own group, and of the one that data comes from */
    bool inter, first, in_place, mixed, plain;
    int root, number, thread;
    enum base base;
    int multiple;
    const char *operation, *detail;
    atomic_long *arrivals;
};

extern int world_rank, world_size;
extern bool strict, verbose;
extern _Thread_local char description[256];

void describe(const struct test *t);
void fail(const char *what, long at, const struct layout *l);

/* ---- execute_buffers.c: one side of a call, blocks of a layout in memory with margins */

struct side {
    struct layout layout;
    count_t counts[MOST], count;
    place_t displs[MOST];
    long periods[MOST];
    char *memory, *image, *base; /* image: what memory must be in the end */
    long size;
};

long arrange(struct side *s, struct random *r, int blocks, bool v);
void side_make(struct side *s, struct test *t, const long *periods, int blocks, bool v);
void side_put(struct side *s, bool image, int block, uint64_t key);
void side_fill(struct side *s, int block, uint64_t key);
void side_check(struct side *s, const char *what);
uint64_t key_of(const struct test *t, int from, int to);
long size_draw(struct test *t, uint64_t salt);
void sizes_regular(struct test *t, long *periods);
void sizes_irregular(struct test *t, long *periods, uint64_t salt, int members);

/* ---- what calls a case's operation and checks what comes out */

void test_bcast(struct test *t);
void test_gather(struct test *t, bool v);
void test_scatter(struct test *t, bool v);
void test_allgather(struct test *t, bool v);
void test_alltoall(struct test *t, bool v);
void test_barrier(struct test *t);
enum scope { REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK };
void test_reduction(struct test *t, enum scope scope);
void reductions_begin(void);
void reductions_end(void);
