/* Frames of the calling Python thread, read from memory without the GIL.
 *
 * A wrapper runs inside a C call of this thread. Until the call returns, nothing changes this
 * thread's frames; the frames own their code objects, which own the strings. Other threads change
 * reference counts, trace flags and frame objects meanwhile, so none of these is read. This file
 * calls only Python functions that read a string or a line table.
 *
 * A program may create and discard code, so an address may later belong to another code object.
 * Frames are therefore identified by contents: file, name, first line, start of the line table, and
 * instruction.
 *
 * Offsets depend on the version (cpython_api.c). Before the first use, the frames of one stack
 * are read with system calls, which report a wrong address instead of crashing. They are checked
 * for types and strings, and against the C API if this thread may call it. After a mismatch,
 * python_site.c uses only the C API.
 *
 * Threads: any; cached results are atomic and equal in all threads.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "callsite/cpython_api.h"

enum { MOST_CHECKED = 1000, HASHED_BYTES = 1024, HASHED_LINES = 64, OWNER_GENERATOR = 1 };
enum { OWNER_NOBODY = 3 }; /* from this value on: no code of the program */

static struct layout layout; /* constant after python_frame_start */
static bool has_layout;
static enum { UNKNOWN, READ, REFUSED } _Atomic state;

/* ---- reading; through a pipe until the layout is verified */

typedef const int *probe_pipe; /* both ends; NULL once the layout is verified */

static inline bool probe_read(probe_pipe probe, const object *base, int offset, void *to,
                              size_t bytes)
{
    const char *const from = (const char *)base + offset;

    if (probe != NULL)
        return syscall(SYS_write, probe[1], from, bytes) == (long)bytes &&
               syscall(SYS_read, probe[0], to, bytes) == (long)bytes;
    memcpy(to, from, bytes);
    return true;
}

static inline const object *probe_pointer(probe_pipe probe, const object *base, int offset)
{
    const object *found;

    return probe_read(probe, base, offset, &found, sizeof found) ? found : NULL;
}

/* ---- contents */

static uint64_t hash_bytes(const char *from, size_t bytes, uint64_t h)
{
    uint64_t word = bytes;

    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    for (; bytes > 0; from += sizeof word) {
        const size_t part = bytes < sizeof word ? bytes : sizeof word;

        word = 0;
        memcpy(&word, from, part);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
        bytes -= part;
    }
    return h;
}

struct characters {
    const char *from;
    ptrdiff_t length;
    unsigned kind; /* bytes per character */
};

/* Locate the characters of a str. State bits: 2 other, 3 kind, 1 compact, 1 ASCII. */
static inline bool characters_of(probe_pipe probe, const object *text, struct characters *c)
{
    uint32_t bits;

    if (!probe_read(probe, text, OBJECT_SIZE, &c->length, sizeof c->length) ||
        !probe_read(probe, text, TEXT_STATE, &bits, sizeof bits))
        return false;
    c->kind = bits >> 2 & 7;
    if ((bits >> 5 & 1) == 0) /* a class derived from str */
        c->from = probe_pointer(probe, text, layout.text_other);
    else
        c->from = (const char *)text + ((bits >> 6 & 1) ? layout.text_ascii : layout.text_other);
    return c->from != NULL && c->length >= 0;
}

static inline uint64_t text_hash(const object *text, uint64_t h)
{
    struct characters c;

    characters_of(NULL, text, &c);
    const size_t bytes = (size_t)c.length * c.kind;

    return hash_bytes(c.from, bytes < HASHED_BYTES ? bytes : HASHED_BYTES, h);
}

/* ---- frames */

/* Return true if a frame runs code of the program and has executed its first instruction. */
static inline bool frame_read(probe_pipe probe, const object *frame, struct frame_place *p)
{
    const struct layout *const l = &layout;
    unsigned char owner = 0;
    const char *instruction;
    int traceable;

    *p = (struct frame_place){.line = -1};
    if (l->owner >= 0 && (!probe_read(probe, frame, l->owner, &owner, 1) || owner >= OWNER_NOBODY))
        return false;
    p->code = (const object *)((uintptr_t)probe_pointer(probe, frame, l->code) & ~(uintptr_t)7);
    if (p->code == NULL || probe_pointer(probe, p->code, OBJECT_TYPE) != py.code_type)
        return false;
    if (l->start < 0) {
        if (!probe_read(probe, frame, l->instruction, &p->at, sizeof p->at))
            return false;
        p->at *= 2;
    } else {
        if (!probe_read(probe, p->code, l->traceable, &traceable, sizeof traceable) ||
            (instruction = probe_pointer(probe, frame, l->instruction)) == NULL)
            return false;
        p->at = (int)(instruction - (const char *)p->code - l->start);
        if (owner != OWNER_GENERATOR && p->at < 2 * traceable)
            return false;
    }
    p->file = probe_pointer(probe, p->code, l->file);
    p->name = probe_pointer(probe, p->code, l->name);
    p->lines = probe_pointer(probe, p->code, l->lines);
    return probe_read(probe, p->code, l->first_line, &p->first_line, sizeof p->first_line);
}

static inline object *thread_frame(probe_pipe probe, const object *thread)
{
    const object *frame = probe_pointer(probe, thread, layout.thread_frame);

    if (frame != NULL && layout.nested >= 0)
        frame = probe_pointer(probe, frame, layout.nested);
    return (object *)frame;
}

object *python_frame_first(object *thread)
{
    return thread_frame(NULL, thread);
}

bool python_frame_next(object **frame, struct frame_place *p)
{
    bool known = false;
    ptrdiff_t length;

    while (*frame != NULL && !known) {
        known = frame_read(NULL, *frame, p);
        *frame = (object *)probe_pointer(NULL, *frame, layout.back);
    }
    if (!known)
        return false;
    p->file_key = text_hash(p->file, 1);
    probe_read(NULL, p->lines, OBJECT_SIZE, &length, sizeof length);
    p->key = hash_bytes((const char *)p->lines + BYTES_DATA,
                        length < HASHED_LINES ? (size_t)length : HASHED_LINES,
                        text_hash(p->name, p->file_key) ^ (uint64_t)length);
    p->key = hash_mix(p->key, (uint64_t)p->first_line << 32 ^ (uint32_t)p->at);
    return true;
}

/* ---- layout check */

static bool text_agrees(probe_pipe probe, const object *text)
{
    struct characters c;

    if (text == NULL || probe_pointer(probe, text, OBJECT_TYPE) != py.text_type ||
        !characters_of(probe, text, &c) || c.length != py.PyUnicode_GetLength(text) ||
        (c.kind != 1 && c.kind != 2 && c.kind != 4))
        return false;
    for (ptrdiff_t i = 0; i < c.length; i++) {
        uint32_t one = 0; /* correct only on little-endian machines; elsewhere the check fails */

        if (!probe_read(probe, c.from + i * c.kind, 0, &one, c.kind) ||
            one != py.PyUnicode_ReadChar(text, i))
            return false;
    }
    return true;
}

/* The objects that a frame refers to must have the expected types. */
static bool types_agree(probe_pipe probe, const struct frame_place *p)
{
    return text_agrees(probe, p->file) && text_agrees(probe, p->name) && p->lines != NULL &&
           probe_pointer(probe, p->lines, OBJECT_TYPE) == py.bytes_type && p->at % 2 == 0;
}

/* The frame must match the C API's next frame. */
static bool api_agrees(object **frame, const struct frame_place *p)
{
    if (*frame == NULL)
        return false;
    const int line = py.PyFrame_GetLineNumber(*frame);
    object *const code = cpython_api_step(frame);

    if (code != p->code)
        return false;
    const int expected = py.PyCode_Addr2Line(p->code, p->at);

    return cpython_api_attribute(code, "co_filename") == p->file &&
           cpython_api_attribute(code, "co_name") == p->name &&
           cpython_api_attribute(code, "co_linetable") == p->lines &&
           line == (expected > 0 ? expected : 0);
}

/* Return the number of verified frames, or -1 after a mismatch. */
static int stack_check(probe_pipe probe, const object *thread, bool ask)
{
    const object *frame = thread_frame(probe, thread);
    object *api_frame = ask ? py.PyEval_GetFrame() : NULL;
    int count = 0;

    for (int i = 0; frame != NULL; i++) {
        struct frame_place p;

        if (i == MOST_CHECKED)
            return count;
        if (frame_read(probe, frame, &p)) {
            if (!types_agree(probe, &p) || (ask && !api_agrees(&api_frame, &p)))
                return -1;
            count++;
        }
        frame = probe_pointer(probe, frame, layout.back);
    }
    return api_frame == NULL ? count : -1;
}

/* Check one stack. PyGILState_Ensure only counts, because this thread has the GIL. */
static int layout_check(object *thread)
{
    const bool ask = py.current != NULL && py.current() == thread;
    int probe[2];

    if (!has_layout || py.code_type == NULL || py.text_type == NULL || py.bytes_type == NULL ||
        pipe2(probe, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    const int lock = ask ? py.PyGILState_Ensure() : 0;
    const int count = ask && py.PyErr_Occurred() != NULL ? 0 : stack_check(probe, thread, ask);

    if (ask)
        py.PyGILState_Release(lock);
    close(probe[0]);
    close(probe[1]);
    return count;
}

/* Called once, before any frame is read. */
void python_frame_start(void)
{
    has_layout = cpython_api_layout(py.Py_GetVersion(), py.runtime, &layout);
}

/* Return true if frames may be read. The first call with a Python frame decides. */
bool python_frame_readable(object *thread)
{
    if (atomic_load_explicit(&state, memory_order_acquire) == UNKNOWN) {
        const int count = layout_check(thread);

        if (count != 0)
            atomic_store_explicit(&state, count > 0 ? READ : REFUSED, memory_order_release);
    }
    return atomic_load_explicit(&state, memory_order_acquire) == READ;
}
