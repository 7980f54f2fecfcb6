/* Stands in for a device runtime, under its real name: the pointer queries of CUDA's driver, HIP
 * (with its lower layer) or Level Zero. Marked memory is on the device and inaccessible to the
 * host. A query before the program has initialised the runtime ends the program. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CUDA_NOT_INITIALISED = 3, HSA_NOT_INITIALISED = 0x100b, ZE_NOT_INITIALISED = 0x78000001 };
static bool initialised;
static char *marked;
static size_t marked_length;
static int last_error;

void device_initialise(void)
{
    initialised = true;
}

void device_mark(void *at, size_t length)
{
    marked = at;
    marked_length = length;
}

static bool is_marked(const void *p)
{
    if (!initialised) {
        fprintf(stderr, "a runtime was asked that is not initialised\n");
        abort();
    }
    return (const char *)p >= marked && (const char *)p < marked + marked_length;
}

int cuCtxGetCurrent(void **context)
{
    static int any;

    *context = &any;
    return initialised ? 0 : CUDA_NOT_INITIALISED;
}

int cuPointerGetAttribute(void *found, int attribute, unsigned long long p)
{
    if (attribute != 2 || !is_marked((void *)(uintptr_t)p))
        return 1;
    *(unsigned *)found = 2;
    return 0;
}

int hsa_system_get_info(int attribute, void *found)
{
    *(uint16_t *)found = (uint16_t)attribute;
    return initialised ? 0 : HSA_NOT_INITIALISED;
}

int hipPeekAtLastError(void)
{
    return last_error;
}

int hipGetLastError(void)
{
    const int error = last_error;

    last_error = 0;
    return error;
}

int hipPointerGetAttributes(int *found, const void *p)
{
    if (!is_marked(p))
        return last_error = 1;
    *found = 2;
    return 0;
}

int zeDriverGet(uint32_t *count, void **drivers)
{
    static int one;

    if (!initialised)
        return ZE_NOT_INITIALISED;
    *count = 1;
    drivers[0] = &one;
    return 0;
}

int zeContextCreate(void *driver, const int *description, void **context)
{
    if (!initialised || *description != 0xd)
        return ZE_NOT_INITIALISED;
    *context = driver;
    return 0;
}

int zeMemGetAllocProperties(void *context, const void *p, int *properties, void **device)
{
    *device = context;
    if (properties[0] != 0x17)
        return 1;
    properties[4] = is_marked(p) ? 2 : 0;
    return 0;
}
