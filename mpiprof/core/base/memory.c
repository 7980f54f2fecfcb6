/* Small memory: what a rank needs to go on with what the others go on with as well.
 *
 * Tables of keys and windows, lists of steps and requests, an algorithm's context: O(p) bytes. One
 * rank alone may fail to get them, where the others are under way and cannot be told: so a reserve
 * is had in MPI_Init, before anything is switched, and serves what malloc refuses. (It is address
 * space; no page of it is touched until then.) From the first refusal on memory_short() is true;
 * that is told at the next point at which all members agree on something in any case: no private
 * communicator is made, none gets more scratch memory, and windows of statistics end
 * (EXTRA_FAILED), so that little more is asked for. Large memory is scratch.c's.
 *
 *      | size, used | ... | size, free | ... | size, used | ... |      the reserve: blocks in a row
 *
 * No piece is more than an eighth. NULL is still possible, when the reserve is used up: callers
 * then leave out what they would have done, or give the program MPI_ERR_NO_MEM, as the library
 * itself does.
 *
 * Threads: all; the reserve is under a lock of its own, which is never held across a call.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/memory.h"

enum { RESERVE = 1 << 23, RESERVE_EACH = 1 << 12, UNIT = 16, SHARES = 8 };
enum { LEFT = MEMORY_LEFT_MB << 20 };

struct block {
    size_t bytes; /* with this head */
    size_t used;
};
static struct block *reserve;
static size_t reserve_bytes;
static bool had;
static _Alignas(UNIT) char least[1 << 18]; /* until then, and where there is none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool refused;

static void reserve_make(void *memory, size_t bytes)
{
    reserve = memory;
    reserve_bytes = bytes;
    *reserve = (struct block){.bytes = bytes};
}

/* For a job of so many processes; once. What was taken before stays where it is. */
void memory_start(int processes)
{
    if (had)
        return;
    const size_t bytes = RESERVE + RESERVE_EACH * (size_t)(processes > 0 ? processes : 1);

    if (!memory_is_left(bytes)) /* a program that is left unrecorded (join.c) keeps all it has */
        return;
    void *const made =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    had = made != MAP_FAILED;
    if (had)
        reserve_make(made, bytes);
}

/* Whether there is a reserve: else nothing may be switched. */
bool memory_had(void)
{
    return had;
}

/* Whether this process has asked for memory in vain. */
bool memory_short(void)
{
    return atomic_load_explicit(&refused, memory_order_relaxed);
}

/* Whether the system gives so much, and then still LEFT: what an MPI library takes at a time when it
 * sends, and ends the program without. Of address space, which is what `ulimit -v` counts. */
bool memory_is_left(size_t bytes)
{
    void *const there =
        mmap(NULL, bytes + LEFT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (there == MAP_FAILED)
        return false;
    munmap(there, bytes + LEFT);
    return true;
}

static struct block *following(const struct block *b)
{
    struct block *const next = (struct block *)((uintptr_t)b + b->bytes);

    return (char *)next < (char *)reserve + reserve_bytes ? next : NULL;
}

static bool is_within(const void *memory, const void *from, size_t bytes)
{
    return (uintptr_t)memory > (uintptr_t)from && (uintptr_t)memory < (uintptr_t)from + bytes;
}

static bool is_reserved(const void *memory)
{
    return is_within(memory, least, sizeof least) || is_within(memory, reserve, reserve_bytes);
}

/* The first free block that is large enough; free neighbours become one on the way. */
static struct block *find(size_t bytes)
{
    for (struct block *b = reserve; b != NULL; b = following(b)) {
        if (b->used)
            continue;
        for (struct block *next = following(b); next != NULL && !next->used; next = following(b))
            b->bytes += next->bytes;
        if (b->bytes >= bytes)
            return b;
    }
    return NULL;
}

static void *take(size_t wanted)
{
    const size_t bytes = (wanted + sizeof(struct block) + UNIT - 1) / UNIT * UNIT;

    atomic_store(&refused, true);
    lock_take(&lock);
    if (reserve == NULL)
        reserve_make(least, sizeof least);
    struct block *const b = wanted < reserve_bytes / SHARES ? find(bytes) : NULL;

    if (b != NULL && b->bytes >= bytes + 2 * sizeof *b) {
        struct block *const rest = (struct block *)((char *)b + bytes);

        *rest = (struct block){.bytes = b->bytes - bytes};
        b->bytes = bytes;
    }
    if (b != NULL)
        b->used = 1;
    lock_give(&lock);
    return b != NULL ? b + 1 : NULL;
}

void *memory_get(size_t bytes)
{
    void *made = calloc(1, bytes > 0 ? bytes : 1);

    if (made == NULL && (made = take(bytes)) != NULL)
        memset(made, 0, bytes);
    return made;
}

/* As realloc, of memory that had so many bytes; it stays where there is none. */
void *memory_resize(void *memory, size_t before, size_t bytes)
{
    void *made = NULL;

    if (!is_reserved(memory) && (made = realloc(memory, bytes)) != NULL)
        return made;
    if (!is_reserved(memory) || (made = malloc(bytes)) == NULL)
        made = take(bytes);
    if (made != NULL && memory != NULL) {
        memcpy(made, memory, before < bytes ? before : bytes);
        memory_free(memory);
    }
    return made;
}

void memory_free(void *memory)
{
    if (!is_reserved(memory)) {
        free(memory);
        return;
    }
    lock_take(&lock);
    ((struct block *)memory)[-1].used = 0;
    lock_give(&lock);
}

/* Gives the system back what static memory took that has had its use: its whole pages, which read
 * as zeros from then on. The pages at its ends may hold something else as well, and stay. */
void memory_give_back(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)memory + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)memory + bytes) / page * page;

    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED); /* in vain: it stays in use */
}

char *memory_text(const char *text)
{
    char *const made = memory_get(strlen(text) + 1);

    return made != NULL ? strcpy(made, text) : NULL;
}
