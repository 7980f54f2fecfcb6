/* Stack unwinding: return addresses of the thread, and tests whether an entered call was abandoned.
 *
 * Callbacks may abandon a call by longjmp or a C++ exception. A user-level thread library may
 * switch to another stack, from which MPI is called again. Addresses alone cannot show this, so the
 * frames are walked with the unwinder of exceptions. An address in a frame of this library is
 * active. An address that another function's frame covers was abandoned. An address outside all
 * frames of this stack is on another stack, or was abandoned.
 *
 * The walk takes some microseconds. It runs only if a call was entered and not left, or when an
 * error handler is entered. If code without unwind tables ends the walk, all outer frames count as
 * active. Threads: any.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <unwind.h>

#include "callsite/callsite.h"

struct walk {
    uintptr_t wanted, reached; /* target address; outermost address reached so far */
    uintptr_t code;            /* code address of the frame that begins at or below `wanted` */
};

static _Unwind_Reason_Code (*backtrace_with)(_Unwind_Trace_Fn, void *);
static _Unwind_Word (*frame_start)(struct _Unwind_Context *);
static _Unwind_Ptr (*frame_code)(struct _Unwind_Context *);
/* their symbol versions depend on glibc */
static int (*attributes_of)(pthread_t, pthread_attr_t *);
static int (*stack_of)(const pthread_attr_t *, void **, size_t *);
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Load the unwinder on demand, as glibc does, because the library may depend only on libc. */
static void find_unwinder(void)
{
    void *const library = dlopen("libgcc_s.so.1", RTLD_LAZY);

    *(void **)&attributes_of = dlsym(RTLD_DEFAULT, "pthread_getattr_np");
    *(void **)&stack_of = dlsym(RTLD_DEFAULT, "pthread_attr_getstack");
    if (library == NULL)
        return;
    *(void **)&frame_start = dlsym(library, "_Unwind_GetCFA");
    *(void **)&frame_code = dlsym(library, "_Unwind_GetIP");
    if (frame_start != NULL && frame_code != NULL)
        *(void **)&backtrace_with = dlsym(library, "_Unwind_Backtrace");
}

/* Return true if a return address is in this library. */
bool unwind_is_own(const void *address)
{
    Dl_info here, there;

    return dladdr((const char *)address - 1, &there) != 0 &&
           dladdr((const void *)&once, &here) != 0 && here.dli_fbase == there.dli_fbase;
}

static void frames_walk(_Unwind_Trace_Fn step, void *walk)
{
    pthread_once(&once, find_unwinder);
    if (backtrace_with != NULL)
        backtrace_with(step, walk);
}

static _Unwind_Reason_Code frame_step(struct _Unwind_Context *frame, void *walk)
{
    struct walk *const w = walk;

    w->reached = (uintptr_t)frame_start(frame);
    if (w->reached > w->wanted)
        return _URC_NORMAL_STOP;
    w->code = (uintptr_t)frame_code(frame);
    return _URC_NO_REASON;
}

/* Return true if both addresses are on the stack that the system gave the thread. */
static bool on_own_stack(uintptr_t a, uintptr_t b)
{
    static _Thread_local uintptr_t low, high;
    pthread_attr_t attributes;
    void *address = NULL;
    size_t size = 0;

    if (high == 0 && attributes_of != NULL && attributes_of(pthread_self(), &attributes) == 0) {
        if (stack_of != NULL)
            stack_of(&attributes, &address, &size);
        pthread_attr_destroy(&attributes);
        low = (uintptr_t)address;
        high = low + size;
    }
    return a >= low && a < high && b >= low && b < high;
}

/* Return true if the frame that contains an address of this thread is still active: a frame of this
 * library, outside the caller's. */
bool unwind_is_live(const void *address)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct walk w = {.wanted = (uintptr_t)address};

    if (w.wanted < here) /* stacks grow down: abandoned, or on another stack */
        return false;
    frames_walk(frame_step, &w);
    if (w.reached > w.wanted)
        return unwind_is_own((const void *)w.code);
    return on_own_stack(w.wanted, here);
}

struct frames {
    const void **found;
    int count, most;
};

static _Unwind_Reason_Code frame_collect(struct _Unwind_Context *frame, void *frames)
{
    struct frames *const f = frames;

    if (f->count == f->most)
        return _URC_NORMAL_STOP;
    if (f->count >= 0) /* the first frame is that of unwind_frames */
        f->found[f->count] = (const void *)(uintptr_t)frame_code(frame);
    f->count++;
    return _URC_NO_REASON;
}

/* Store the return addresses of this thread's frames, the caller's first, and return their number.
 * This replaces glibc's backtrace(), which other C libraries lack. */
int unwind_frames(const void **found, int most)
{
    struct frames f = {found, -1, most};

    frames_walk(frame_collect, &f);
    return f.count > 0 ? f.count : 0;
}

struct address_search {
    struct span found;
    enum { INSIDE, LIBRARY, CALLER } at;
};

static _Unwind_Reason_Code frame_check(struct _Unwind_Context *frame, void *search)
{
    struct address_search *const s = search;
    const uintptr_t start = (uintptr_t)frame_start(frame);
    const bool own = unwind_is_own((const void *)frame_code(frame));

    if (s->at == CALLER && !own) {
        s->found.high = start;
        return _URC_NORMAL_STOP;
    }
    if (s->at == LIBRARY && own) {
        s->found.low = start;
        s->at = CALLER;
    } else if (s->at == INSIDE && !own) {
        s->at = LIBRARY;
    }
    return _URC_NO_REASON;
}

/* In a callback, return the span of this library's frames that called the MPI library. */
struct span unwind_caller(void)
{
    struct address_search s = {.found = {(uintptr_t)__builtin_frame_address(0), UINTPTR_MAX}};

    frames_walk(frame_check, &s);
    return s.found;
}
