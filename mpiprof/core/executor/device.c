/* Detection of buffers in device memory (CUDA, HIP, Level Zero), which no host routine may touch.
 *
 * The query goes to the runtime that the program has loaded, and only if the program has
 * initialised it. This file loads and initialises none, and preserves the runtime's last error. A
 * rank knows this only of its buffers, so it must not affect the choice of an algorithm:
 *
 *   device_present   a fact of this process, on which the members agree when they create a private
 *                    communicator. If one of them uses a device, all calls stay with the library.
 *   device_holds     a fact of a buffer, for devices that are used later. The library copies the
 *                    data to the host and back (pack_buffers.c).
 *
 * Threads: any. The table is protected by `lock`, and rebuilt after a shared library has been
 * loaded or unloaded. Recording makes no query and touches no buffer.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/recorder.h"
#include "executor/execution.h"

enum { CUDA, HIP, LEVEL_ZERO, RUNTIMES };
static const char *const file_names[RUNTIMES] = {"libcuda.so", "libamdhip64.so", "libze_loader.so"};
enum { ZE_CONTEXT_DESCRIPTION = 0xd, ZE_ALLOCATION = 0x17, MOST_DRIVERS = 4 };

struct ze_description { /* headers of Level Zero's structures */
    int type;
    const void *next;
    uint32_t flags;
};
struct ze_allocation {
    int type;
    void *next;
    int kind; /* 0 unknown, 1 host, 2 device, 3 shared */
    uint64_t id, page;
};

/* Functions of the runtimes. hsa_system_get_info belongs to a dependency of HIP. */
#define FUNCTIONS(X)                                                                               \
    X(CUDA, cuCtxGetCurrent, (void **))                                                            \
    X(CUDA, cuDeviceGetCount, (int *))                                                             \
    X(CUDA, cuDevicePrimaryCtxGetState, (int, unsigned *, int *))                                  \
    X(CUDA, cuPointerGetAttribute, (void *, int, unsigned long long))                              \
    X(HIP, hipPeekAtLastError, (void))                                                             \
    X(HIP, hipGetLastError, (void))                                                                \
    X(HIP, hipPointerGetAttributes, (void *, const void *))                                        \
    X(HIP, hsa_system_get_info, (int, void *))                                                     \
    X(LEVEL_ZERO, zeDriverGet, (uint32_t *, void **))                                              \
    X(LEVEL_ZERO, zeContextCreate, (void *, const struct ze_description *, void **))               \
    X(LEVEL_ZERO, zeMemGetAllocProperties, (void *, const void *, struct ze_allocation *, void **))

static struct runtimes {
#define MEMBER(library, name, parameters) int(*name) parameters; /* NULL if not loaded */
    FUNCTIONS(MEMBER)
#undef MEMBER
    void *contexts[MOST_DRIVERS]; /* Level Zero contexts, which a query requires */
    bool any;
} runtimes;
static unsigned long long changes; /* number of loads and unloads when the table was built */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- loaded runtimes */

static int count_changes(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    *(unsigned long long *)found = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

static int note_name(struct dl_phdr_info *info, size_t size, void *found)
{
    char (*const names)[PATH_BYTES] = found;
    const char *const slash = strrchr(info->dlpi_name, '/');
    const char *const name = slash != NULL ? slash + 1 : info->dlpi_name;

    (void)size;
    for (int i = 0; i < RUNTIMES; i++)
        if (strncmp(name, file_names[i], strlen(file_names[i])) == 0)
            snprintf(names[i], sizeof names[i], "%s", info->dlpi_name);
    return 0;
}

static void table_make(void)
{
    static SPARSE char names[RUNTIMES]
                            [PATH_BYTES]; /* static, because the thread's stack may be small */
    void *libraries[RUNTIMES];

    for (int i = 0; i < RUNTIMES; i++)
        names[i][0] = '\0';
    dl_iterate_phdr(note_name, names);
    runtimes.any = false;
    for (int i = 0; i < RUNTIMES; i++) {
        libraries[i] = names[i][0] != '\0' ? dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD) : NULL;
        runtimes.any |= libraries[i] != NULL;
    }
#define FIND(library, name, parameters)                                                            \
    *(void **)&runtimes.name = libraries[library] != NULL ? dlsym(libraries[library], #name) : NULL;
    FUNCTIONS(FIND)
#undef FIND
    memset(runtimes.contexts, 0, sizeof runtimes.contexts);
    for (int i = 0; i < RUNTIMES; i++)
        if (libraries[i] != NULL)
            dlclose(libraries[i]); /* the program keeps its own reference */
}

/* ---- initialised runtimes */

static bool cuda_initialised(const struct runtimes *r, void **current)
{
    return r->cuCtxGetCurrent != NULL && r->cuCtxGetCurrent(current) == 0;
}

/* HIP would initialise itself at the first query; the layer below it can be queried safely. */
static bool hip_initialised(const struct runtimes *r)
{
    uint64_t version = 0;

    return r->hipPointerGetAttributes != NULL && r->hipPeekAtLastError != NULL &&
           r->hipGetLastError != NULL &&
           (r->hsa_system_get_info == NULL || r->hsa_system_get_info(0, &version) == 0);
}

static bool ze_initialised(struct runtimes *r)
{
    const struct ze_description d = {.type = ZE_CONTEXT_DESCRIPTION};
    void *drivers[MOST_DRIVERS];
    uint32_t count = MOST_DRIVERS;

    if (r->zeDriverGet == NULL || r->zeContextCreate == NULL ||
        r->zeMemGetAllocProperties == NULL || r->zeDriverGet(&count, drivers) != 0)
        return false;
    for (uint32_t i = 0; i < count && i < MOST_DRIVERS; i++)
        if (r->contexts[i] == NULL && r->zeContextCreate(drivers[i], &d, &r->contexts[i]) != 0)
            r->contexts[i] = NULL;
    return count > 0;
}

/* The MPI library may initialise CUDA although the program uses no device. Device memory exists
 * only with a context. */
static bool cuda_in_use(const struct runtimes *r)
{
    void *current = NULL;
    int devices = 0;

    if (!cuda_initialised(r, &current))
        return false;
    if (current != NULL || r->cuDeviceGetCount == NULL || r->cuDevicePrimaryCtxGetState == NULL ||
        r->cuDeviceGetCount(&devices) != 0)
        return true;
    for (int i = 0; i < devices; i++) {
        unsigned flags;
        int active = 0;

        if (r->cuDevicePrimaryCtxGetState(i, &flags, &active) == 0 && active)
            return true;
    }
    return false;
}

/* ---- location of a buffer */

static bool cuda_holds(const struct runtimes *r, const void *buffer)
{
    enum { MEMORY_TYPE = 2, HOST = 1 };
    unsigned type = 0;
    void *current = NULL;

    return cuda_initialised(r, &current) && r->cuPointerGetAttribute != NULL &&
           r->cuPointerGetAttribute(&type, MEMORY_TYPE, (uintptr_t)buffer) == 0 && type != 0 &&
           type != HOST;
}

/* Type 0 is always host memory. Type 1 was device memory and is pinned host memory since; an
 * unnecessary copy does no harm. The query may set the last error, which the program may still want
 * to read. */
static bool hip_holds(const struct runtimes *r, const void *buffer)
{
    union {
        int type;
        char room[256]; /* the structure has grown over the releases */
    } found = {.room = {0}};

    if (!hip_initialised(r))
        return false;
    if (r->hipPeekAtLastError() != 0)
        return true;
    const int error = r->hipPointerGetAttributes(&found, buffer);

    if (error != 0)
        r->hipGetLastError();
    return error == 0 && found.type != 0;
}

static bool ze_holds(struct runtimes *r, const void *buffer)
{
    if (!ze_initialised(r))
        return false;
    for (int i = 0; i < MOST_DRIVERS; i++) {
        struct ze_allocation a = {.type = ZE_ALLOCATION};
        void *device = NULL;

        if (r->contexts[i] != NULL &&
            r->zeMemGetAllocProperties(r->contexts[i], buffer, &a, &device) == 0 && a.kind > 1)
            return true;
    }
    return false;
}

/* ---- interface */

/* Rebuild the table if necessary, under the lock. Returns false if no runtime is loaded. */
static bool table_ready(void)
{
    unsigned long long now = 0;

    dl_iterate_phdr(count_changes, &now);
    if (now != changes) {
        changes = now;
        table_make();
    }
    return runtimes.any;
}

bool device_present(void)
{
    lock_acquire(&lock);
    const bool present = table_ready() && (cuda_in_use(&runtimes) || hip_initialised(&runtimes) ||
                                           ze_initialised(&runtimes));

    lock_release(&lock);
    return present;
}

bool device_holds(const void *buffer)
{
    static atomic_bool said;

    if (buffer == NULL)
        return false;
    lock_acquire(&lock);
    const bool holds =
        table_ready() && (cuda_holds(&runtimes, buffer) || hip_holds(&runtimes, buffer) ||
                          ze_holds(&runtimes, buffer));

    lock_release(&lock);
    if (holds && !atomic_exchange(&said, true) && recorder.rank == 0)
        recorder_print("a buffer is on a device that was not in use when algorithms were first "
                       "selected on its communicator: the data goes through host memory");
    return holds;
}
