/* Preloaded: refuses memory requests of the recorder, as the environment specifies.
 *
 *   FAIL_RANK   the rank that is affected; -1 for all
 *   FAIL_FROM   the first request refused, counted from 1
 *   FAIL_EVERY  interval of later refusals; 0 to refuse only the first
 *
 * Only requests with a return address in the recorder count. Requests of the program and of the MPI
 * library never fail. FAIL_COUNT names a file to which each rank appends its number of requests and
 * refusals.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

static atomic_long requests, refusals;

static long number(const char *name, long otherwise)
{
    const char *const text = getenv(name);

    return text != NULL ? atol(text) : otherwise;
}

static long rank_of_process(void)
{
    return number("OMPI_COMM_WORLD_RANK", number("PMI_RANK", -1));
}

static bool refused(const void *from)
{
    static _Thread_local bool looking;
    Dl_info place;

    if (looking || rank_of_process() < 0)
        return false;
    looking = true;
    const bool ours = dladdr(from, &place) != 0 && strstr(place.dli_fname, "libmpiprof-") != NULL;

    looking = false;
    if (!ours)
        return false;
    const long n = atomic_fetch_add(&requests, 1) + 1, first = number("FAIL_FROM", 0);
    const long every = number("FAIL_EVERY", 0), rank = number("FAIL_RANK", -1);

    if (first < 1 || n < first || (rank >= 0 && rank != rank_of_process()) ||
        (every == 0 ? n != first : (n - first) % every != 0))
        return false;
    atomic_fetch_add(&refusals, 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t at)
{
    if (refused(__builtin_return_address(0)))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, descriptor, at);
}

__attribute__((destructor)) static void tell(void)
{
    const char *const path = getenv("FAIL_COUNT");
    char line[100];

    if (path == NULL || rank_of_process() < 0 || atomic_load(&requests) == 0)
        return;
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    const int length = snprintf(line, sizeof line, "%ld %ld %ld\n", rank_of_process(),
                                atomic_load(&requests), atomic_load(&refusals));

    if (write(file, line, (size_t)length) != length)
        _exit(99);
    close(file);
}
