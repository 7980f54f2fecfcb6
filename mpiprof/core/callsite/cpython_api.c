/* Python's C API, looked up with dlsym in a process that contains Python, and offsets in its
 * structures, for the tested Pythons: CPython 3.10 to 3.14 with GIL, on 64-bit machines.
 *
 * CPython publishes the offsets from 3.13 on. Before, they are constant within a minor release.
 * python_frame.c verifies them before the first use. A free-threaded Python has other offsets, and
 * per-thread copies of instructions in a table that may move during a read. It is queried through
 * the C API instead.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "callsite/cpython_api.h"

struct python py;

/* Look up the functions. Returns false without Python, or if it lacks a required function. */
bool cpython_api_find(void)
{
    bool complete = true;

#define FIND(type, name, parameters)                                                               \
    *(void **)&py.name = dlsym(RTLD_DEFAULT, #name);                                               \
    complete &= py.name != NULL;
    PYTHON_MORE(FIND)
    py.can_sample = complete;
    complete = true;
    PYTHON_API(FIND)
#undef FIND
    py.runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    py.code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
    py.text_type = dlsym(RTLD_DEFAULT, "PyUnicode_Type");
    py.bytes_type = dlsym(RTLD_DEFAULT, "PyBytes_Type");
    *(void **)&py.current = dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");
    if (py.current == NULL)
        *(void **)&py.current = dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet");
    *(void **)&py.finalising = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    if (py.finalising == NULL)
        *(void **)&py.finalising = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    return complete;
}

/* Return an attribute of a code object, which owns it, or NULL. */
const object *cpython_api_attribute(object *code, const char *name)
{
    object *const value = py.PyObject_GetAttrString(code, name);

    if (value == NULL)
        py.PyErr_Clear();
    else
        py.Py_DecRef(value);
    return value;
}

/* Replace a frame by its back frame, and return its code object. The frame owns both. */
object *cpython_api_step(object **frame)
{
    object *const code = py.PyFrame_GetCode(*frame), *const back = py.PyFrame_GetBack(*frame);

    py.Py_DecRef(code);
    if (back != NULL)
        py.Py_DecRef(back);
    *frame = back;
    return code;
}

/* ---- offsets in structures */

/* minor, thread_frame, nested, code, back, instruction, owner, first_line, file, name, lines,
 * traceable, start, text_ascii, text_other */
static const struct layout layouts[] = {
    {10, 24, -1, 32, 24, 96, -1, 40, 104, 112, 120, -1, -1, 48, 72},
    {11, 56, 8, 32, 48, 56, 69, 72, 112, 120, 136, 168, 184, 48, 72},
    {12, 56, 0, 0, 8, 56, 70, 68, 112, 120, 136, 176, 192, 40, 56},
};

/* Positions in `_Py_DebugOffsets`, at the beginning of `_PyRuntime`, by release: numbers of the
 * 64-bit words at which the sections of thread states, frames and code objects begin. */
static const struct {
    int minor, thread, frame, code;
} sections[] = {{13, 19, 28, 34}, {14, 22, 31, 39}};
enum { SECTIONS = sizeof sections / sizeof *sections };

/* Return true if Python publishes its offsets. A string has the size as in 3.12, and the offset of
 * the first traceable instruction is not published: two words before the instructions. */
static bool published(int minor, const uint64_t *runtime, struct layout *l)
{
    size_t i = 0;

    while (i < SECTIONS && sections[i].minor != minor)
        i++;
    if (i == SECTIONS || runtime == NULL || memcmp(runtime, "xdebugpy", sizeof *runtime) != 0 ||
        runtime[1] >> 16 != (0x300u | (unsigned)minor) || runtime[2] != 0 /* free-threaded */)
        return false;
    const uint64_t *const thread = runtime + sections[i].thread;
    const uint64_t *const frame = runtime + sections[i].frame;
    const uint64_t *const code = runtime + sections[i].code;

    *l = (struct layout){.minor = minor,
                         .thread_frame = (int)thread[4],
                         .nested = -1,
                         .code = (int)frame[2],
                         .back = (int)frame[1],
                         .instruction = (int)frame[3],
                         .owner = (int)frame[5],
                         .first_line = (int)code[5],
                         .file = (int)code[1],
                         .name = (int)code[2],
                         .lines = (int)code[4],
                         .traceable = (int)code[9] - 16,
                         .start = (int)code[9],
                         .text_ascii = 40,
                         .text_other = 56};
    return true;
}

/* Find the layout for a version string of Py_GetVersion and the address of `_PyRuntime`, which may
 * be NULL. Returns false if the version is untested. */
bool cpython_api_layout(const char *version, const void *runtime, struct layout *l)
{
    int major = 0, minor = 0;

    if (sizeof(void *) != 8 || strstr(version, "free-threading") != NULL ||
        sscanf(version, "%d.%d", &major, &minor) != 2 || major != 3)
        return false;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].minor == minor) {
            *l = layouts[i];
            return true;
        }
    return published(minor, runtime, l);
}
