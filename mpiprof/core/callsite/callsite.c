/* Call sites: the locations in the program that call MPI.
 *
 * A native site is the return address, which costs nothing, or with --stack a hash of several. A
 * site is written to the tables when it is first used, as module and offset, which do not depend on
 * address space randomisation. The reports find file and line later, off the node (trace/sites.py).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/recorder.h"
#include "callsite/callsite.h"

enum { OWN_FRAMES = 8 };

static struct map native_sites;
static SPARSE char executable[PATH_BYTES];
static const void *program_base;
static uintptr_t vdso_base;

/* Threads that call MPI may have small stacks, so the texts are on the heap, and realpath, which
 * takes several KB of the stack, is not called. A relative path of a library is relative to the
 * working directory at load time. */
static void frame_add(struct text *t, const void *address)
{
    struct text symbol = {0};
    Dl_info info = {0};
    /* A return address points behind its call. */
    const char *const inside = (const char *)address - 1;

    text_add(t, t->length > 0 ? ", {\"module\": " : "{\"module\": ");
    if (dladdr(inside, &info) == 0 || info.dli_fname == NULL) {
        text_add(t, "null, \"offset\": 0, \"symbol\": null}");
        return;
    }
    const bool program = info.dli_fbase == program_base && executable[0] != '\0';
    struct text path = {0};

    const char *file = info.dli_fname;

    while (strncmp(file, "./", 2) == 0)
        file += 2;
    /* The vdso is not a file. */
    const bool is_relative = file[0] != '/' && (uintptr_t)info.dli_fbase != vdso_base;

    if (!program && is_relative && site_folder[0] != '\0')
        text_add(&path, "%s/%s", site_folder, file);
    text_json(t, program ? executable : path.bytes != NULL ? path.bytes : file, -1);
    text_free(&path);
    text_add(t, ", \"offset\": %ld, \"symbol\": ", (long)(inside - (const char *)info.dli_fbase));
    if (info.dli_sname == NULL) {
        text_add(t, "null}");
        return;
    }
    text_add(&symbol, "%s+0x%lx", info.dli_sname,
             (unsigned long)(inside - (const char *)info.dli_saddr));
    text_json(t, symbol.bytes != NULL ? symbol.bytes : info.dli_sname, -1);
    text_free(&symbol);
    text_add(t, "}");
}

/* Store the program's frames, from `address` outwards, and return their number. */
static int stack_walk(const void *address, const void **frames, int wanted)
{
    const void *all[MOST_FRAMES + OWN_FRAMES];
    const int depth = unwind_frames(all, wanted + OWN_FRAMES);
    int count = 0, i = 0;

    while (i < depth && all[i] != address)
        i++;
    if (i == depth) /* below a Fortran layer, or without unwind tables */
        for (i = 0; i < depth && unwind_is_own(all[i]); i++)
            ;
    for (; i < depth && count < wanted; i++)
        frames[count++] = all[i];
    if (count == 0)
        frames[count++] = address;
    return count;
}

static struct site *site_of(uint64_t key, const void **frames, int count)
{
    const int kept = errno; /* errno belongs to the program */
    struct text t = {0};

    if (python_site_is_exit_address(frames[0]))
        text_add(&t, "{\"file\": \"at exit (mpi4py)\", \"line\": 0, \"function\": \"\"}");
    else
        for (int i = 0; i < count; i++)
            frame_add(&t, frames[i]);
    struct site *const s = site_new(&native_sites, key, &t);

    text_free(&t);
    errno = kept;
    return s;
}

struct site *callsite_find(const void *address)
{
    const int wanted = recorder.options.stack < MOST_FRAMES ? recorder.options.stack : MOST_FRAMES;
    const void *frames[MOST_FRAMES] = {address};
    uint64_t key = (uint64_t)(uintptr_t)address;
    int count = 1;

    if (wanted > 1) {
        count = stack_walk(address, frames, wanted);
        for (int i = 0; i < count; i++)
            key = hash_mix(key, (uint64_t)(uintptr_t)frames[i]);
    }
    struct site *const known = map_get(&native_sites, key);

    return known != NULL ? known : site_of(key, frames, count);
}

static uint64_t stack_key(const void **frames, int count)
{
    uint64_t key = (uint64_t)(uintptr_t)frames[0];

    for (int i = 1; i < count; i++)
        key = hash_mix(key, (uint64_t)(uintptr_t)frames[i]);
    return key;
}

/* Return the site of a sampled stack, or NULL if there are too many sites. All addresses are return
 * addresses. After the reliable ones, the first that cannot be one ends the stack. This check is
 * slow, so a stack that passed it is found without it. */
struct site *callsite_at(const uint64_t *stack, int count, int reliable)
{
    static atomic_int made;
    const void *frames[MOST_FRAMES] = {NULL};
    const int most = count < MOST_FRAMES ? count : MOST_FRAMES;
    int checked = reliable;

    for (int i = 0; i < most; i++)
        frames[i] = (const void *)(uintptr_t)stack[i];
    struct site *known = map_get(&native_sites, stack_key(frames, most));

    while (known == NULL && checked < most && return_address_is_possible(frames[checked]))
        checked++;
    if (known == NULL && checked < most)
        known = map_get(&native_sites, stack_key(frames, checked));
    if (known != NULL)
        return known;
    return atomic_fetch_add(&made, 1) < MOST_SAMPLED
               ? site_of(stack_key(frames, checked), frames, checked)
               : NULL;
}

/* Return true if a native frame, as text, is in the program's executable and not in a library. */
bool callsite_is_of_program(const char *frame)
{
    struct text program = {0};

    text_add(&program, "{\"module\": ");
    text_json(&program, executable, -1);
    const bool same =
        program.bytes != NULL && !program.cut && strncmp(frame, program.bytes, program.length) == 0;

    text_free(&program);
    return same;
}

void callsite_start(void)
{
    Dl_info info;
    const ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);

    executable[length > 0 ? length : 0] = '\0';
    vdso_base = getauxval(AT_SYSINFO_EHDR);
    if (dladdr((const void *)getauxval(AT_PHDR), &info) != 0)
        program_base = info.dli_fbase;
}
