/* Call sites: locations in the program that call MPI. */
#pragma once
#include "base/base.h"
#include "callsite/cpython_api.h"

/* ---- table of call sites (site.c) */

enum { MOST_FRAMES = 32, MOST_SAMPLED = 8192 }; /* frames of a site; sites of samples */

struct site {
    uint32_t id;
    const int *overrides; /* rules.c: the rules that name the site, or NULL */
    const char *frame;    /* first frame, as in the tables; NULL if no calls are switched */
};
struct site *site_new(struct map *m, uint64_t key, const struct text *frames);
void site_name(const struct site *s, struct text *name);
extern char site_folder[]; /* working directory before MPI_Init; empty if unknown */
void site_remember_folder(void);

/* ---- stacks of samples (return_address.c) */

bool return_address_is_possible(const void *address);

/* ---- call sites: the locations in the program that call MPI (callsite.c) */

struct site *callsite_find(const void *address);
/* of a sample; innermost first; NULL beyond MOST_SAMPLED */
struct site *callsite_at(const uint64_t *stack, int count, int reliable);
bool callsite_is_of_program(const char *frame);
void callsite_start(void);

/* ---- stack unwinding (unwind.c) */

struct span {
    uintptr_t low, high;
};
bool unwind_is_own(const void *address);
bool unwind_is_live(const void *address);
struct span unwind_caller(void);
int unwind_frames(const void **found, int most);

/* ---- samples of the program's location outside MPI (sampler.c) */

/* Callback for a sample at a time in ns. ns is its duration, or 0 for the time since the last
 * sample. It runs on the sampling thread, or for kernel samples in sampler_drain. */
typedef void sampler_found(struct site *place, int64_t at, int64_t ns);

const char *sampler_start(sampler_found *found);
void sampler_drain(int64_t since);
void sampler_stop(void);

/* ---- call sites of Python programs (python_site.c) */

extern bool python_site_is_possible; /* the process has loaded Python */
struct site *python_site_read(void); /* NULL if no Python frame is readable now */
static inline struct site *python_site(void)
{
    return python_site_is_possible ? python_site_read() : NULL;
}
bool python_site_is_initialised(void);       /* calls that need no GIL are safe */
struct site *python_site_of(object *thread); /* requires the GIL */
/* Return true if Python has ended and the address is in its library or in mpi4py's module. */
bool python_site_is_exit_address(const void *address);
bool python_site_is_mpi4py(const void *address);
bool python_site_is_skipped_file(const char *file);
void python_site_add_text(struct text *t, const object *text, size_t most);
void python_site_add_location(struct text *t, const struct frame_place *p);
void python_site_start(void);
bool python_site_can_take_gil(void);
void python_site_clear_preload(const char *value);

/* ---- functions of the recorder that Python calls (python_hook.c) */

struct python_method { /* PyMethodDef */
    const char *name;
    object *(*function)(object *, object *);
    int flags;
    const char *doc;
};
bool python_hook_add(const char *module_name, const char *attribute, const char *method_name,
                     struct python_method *function);
bool python_hook_at_exit(void (*stop)(void));

/* ---- exceptions that end a Python program or a thread of it (python_exception.c) */

void python_exception_start(void);
void python_exception_abort(const void *address); /* of the caller of MPI_Abort */

/* ---- pauses of Python's garbage collector (python_gc.c) */

const char *python_gc_start(void (*function)(bool begins));
