/* Mapped files that other processes may truncate.
 *
 * If a file shrinks, the pages of its mappings are lost, and the next access to such a page causes
 * SIGBUS. The handler (init/bus_error.c) replaces the lost pages by anonymous memory, so that the
 * access succeeds, and recording stops. The handler cannot run in threads that block SIGBUS. They
 * compare the file's length before they write (mapped_replace_beyond).
 *
 * Signal handlers read the list, so it only grows, and mappings last as long as the process.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/recorder.h"

struct mapping {
    struct mapping *next;
    char *start;
    size_t bytes;
    off_t end;                                    /* end of the mapping in the file */
    _Atomic enum { MAPPED, LOST, REMOVED } state; /* LOST: replaced by anonymous memory */
};

atomic_bool mapped_is_unguarded = true;
static struct mapping *_Atomic mappings;
static SPARSE char lost_line[PATH_BYTES + 512];

/* Map a part of a file for reading and writing. Returns NULL with errno set on failure. */
void *mapped_add(int descriptor, off_t offset, size_t bytes, int flags)
{
    struct mapping *const m = calloc(1, sizeof *m);

    if (m == NULL)
        return NULL;
    m->start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor, offset);
    if (m->start == MAP_FAILED) {
        const int reason = errno;

        free(m);
        errno = reason;
        return NULL;
    }
    m->bytes = bytes;
    m->end = offset + (off_t)bytes;
    m->next = atomic_load(&mappings);
    while (!atomic_compare_exchange_weak(&mappings, &m->next, m))
        ;
    return m->start;
}

/* Prepare the message about the loss of a file, which is printed once: little stack may be left in
 * a signal handler. */
void mapped_set_message(const char *folder, const char *file)
{
    if (!recorder.options.quiet)
        snprintf(lost_line, sizeof lost_line,
                 "mpiprof: rank %d: another process has truncated %s/%s.log; recording stops, the "
                 "program continues\n",
                 recorder.rank, folder, file);
}

static bool mapping_contains(const struct mapping *m, const void *address)
{
    return atomic_load(&m->state) != REMOVED && (const char *)address >= m->start &&
           (const char *)address < m->start + m->bytes;
}

static struct mapping *mapping_find(const void *address)
{
    struct mapping *m = atomic_load(&mappings);

    while (m != NULL && !mapping_contains(m, address))
        m = m->next;
    return m;
}

static bool mapping_replace(struct mapping *m)
{
    const int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS;

    if (mmap(m->start, m->bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
        return false;
    atomic_store(&m->state, LOST);
    if (!atomic_exchange(&recorder.stopped, true))
        signal_guard_print(lost_line, strlen(lost_line));
    return true;
}

/* Replace the mapping that contains an address. Returns false if there is none. */
bool mapped_replace(const void *address)
{
    const int reason = errno;
    struct mapping *const m = mapping_find(address);
    const bool done = m != NULL && mapping_replace(m);

    errno = reason;
    return done;
}

/* Return the newest mapping. */
struct mapping *mapped_newest(void)
{
    return atomic_load(&mappings);
}

/* Replace the mappings beyond the end of their file. newest: the newest mapping before the end was
 * read, because another thread may have extended the file since then, and mapped the new part. */
void mapped_replace_beyond(struct mapping *newest, off_t end)
{
    for (struct mapping *m = newest; m != NULL; m = m->next)
        if (m->end > end && atomic_load(&m->state) == MAPPED)
            mapping_replace(m);
}

bool mapped_is_lost(const void *address)
{
    const struct mapping *const m = mapping_find(address);

    return m == NULL || atomic_load(&m->state) == LOST;
}

/* Unmap a mapping that no thread uses. */
void mapped_remove(void *start)
{
    struct mapping *const m = mapping_find(start);

    if (m == NULL)
        return;
    atomic_store(&m->state, REMOVED);
    munmap(m->start, m->bytes);
}
