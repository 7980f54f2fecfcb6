/* Small allocations that a rank requires to continue together with the other ranks.
 *
 * They contain tables of keys and windows, lists of steps and requests, and an algorithm's context:
 * O(p) bytes. An allocation may fail on one rank alone, when the other ranks are committed and
 * cannot be informed. So MPI_Init sets up a reserve before any call runs on a schedule. It serves
 * requests that malloc refuses. (It is address space; its pages are touched only then.)
 *
 * From the first refusal on memory_is_short() is true. The members learn this at their next
 * agreement. Then no private communicator is created, none gets more scratch memory, and windows of
 * statistics end (EXTRA_FAILED), so that few requests follow. Large memory is in scratch.c.
 *
 *   | size, used | ... | size, free | ... | size, used | ... |      the reserve: consecutive blocks
 *
 * No allocation may exceed an eighth of the reserve. If the reserve is exhausted, the result is
 * NULL. The callers then omit the work, or return MPI_ERR_NO_MEM to the program, as the library
 * itself does.
 *
 * Threads: any. The reserve has its own lock, which no thread holds during another call.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"

enum { RESERVE = 1 << 23, RESERVE_EACH = 1 << 12, UNIT = 16, SHARES = 8 };
enum { LEFT = MEMORY_RESERVED_MB << 20 };

struct memory_block {
    size_t bytes; /* including this header */
    size_t used;
};
static struct memory_block *reserve;
static size_t reserve_bytes;
bool memory_reserve_exists;
/* before memory_start, and if the reserve could not be allocated */
static SPARSE _Alignas(UNIT) char least[1 << 18];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool allocation_failed;

static void reserve_make(void *memory, size_t bytes)
{
    reserve = memory;
    reserve_bytes = bytes;
    *reserve = (struct memory_block){.bytes = bytes};
}

/* Allocate the reserve for a job of so many processes, once. Earlier allocations stay valid. */
void memory_start(int processes)
{
    if (memory_reserve_exists)
        return;
    const size_t bytes = RESERVE + RESERVE_EACH * (size_t)(processes > 0 ? processes : 1);

    /* a program that is left unrecorded (trace_agreement.c) keeps all its memory */
    if (!memory_is_left(bytes))
        return;
    void *const made =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memory_reserve_exists = made != MAP_FAILED;
    if (memory_reserve_exists)
        reserve_make(made, bytes);
}

bool memory_is_short(void)
{
    return atomic_load_explicit(&allocation_failed, memory_order_relaxed);
}

/* Return true if the system has so much address space, and LEFT in addition. An MPI library needs
 * LEFT in a send and otherwise ends the program. `ulimit -v` limits address space. */
bool memory_is_left(size_t bytes)
{
    void *const there =
        mmap(NULL, bytes + LEFT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (there == MAP_FAILED)
        return false;
    munmap(there, bytes + LEFT);
    return true;
}

static struct memory_block *block_next(const struct memory_block *b)
{
    struct memory_block *const next = (struct memory_block *)((uintptr_t)b + b->bytes);

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

/* Return the first free block that is large enough, and merge free neighbours on the way. */
static struct memory_block *block_find(size_t bytes)
{
    for (struct memory_block *b = reserve; b != NULL; b = block_next(b)) {
        if (b->used)
            continue;
        for (struct memory_block *next = block_next(b); next != NULL && !next->used;
             next = block_next(b))
            b->bytes += next->bytes;
        if (b->bytes >= bytes)
            return b;
    }
    return NULL;
}

static void *block_allocate(size_t wanted)
{
    const size_t bytes = (wanted + sizeof(struct memory_block) + UNIT - 1) / UNIT * UNIT;

    atomic_store(&allocation_failed, true);
    lock_acquire(&lock);
    if (reserve == NULL)
        reserve_make(least, sizeof least);
    struct memory_block *const b = wanted < reserve_bytes / SHARES ? block_find(bytes) : NULL;

    if (b != NULL && b->bytes >= bytes + 2 * sizeof *b) {
        struct memory_block *const rest = (struct memory_block *)((char *)b + bytes);

        *rest = (struct memory_block){.bytes = b->bytes - bytes};
        b->bytes = bytes;
    }
    if (b != NULL)
        b->used = 1;
    lock_release(&lock);
    return b != NULL ? b + 1 : NULL;
}

void *memory_allocate(size_t bytes)
{
    void *made = calloc(1, bytes > 0 ? bytes : 1);

    if (made == NULL && (made = block_allocate(bytes)) != NULL)
        memset(made, 0, bytes);
    return made;
}

/* Resize like realloc, for memory of `before` bytes. On failure the memory stays unchanged. */
void *memory_resize(void *memory, size_t before, size_t bytes)
{
    void *made = NULL;

    if (!is_reserved(memory) && (made = realloc(memory, bytes)) != NULL)
        return made;
    if (!is_reserved(memory) || (made = malloc(bytes)) == NULL)
        made = block_allocate(bytes);
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
    lock_acquire(&lock);
    ((struct memory_block *)memory)[-1].used = 0;
    lock_release(&lock);
}

/* Return the whole pages of static memory to the system; they then read as zeros. The pages at both
 * ends may contain other data. */
void memory_pages_release(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)memory + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)memory + bytes) / page * page;

    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED); /* on failure the pages stay in use */
}

char *memory_copy_text(const char *text)
{
    char *const made = memory_allocate(strlen(text) + 1);

    return made != NULL ? strcpy(made, text) : NULL;
}
