/* Offsets in the structures of the tested Pythons: CPython 3.10 to 3.14 with GIL, on 64-bit
 * machines. CPython publishes them from 3.13 on. Before, they are constant within a minor release.
 * python_frame.c verifies them before the first use.
 *
 * A free-threaded Python has other offsets, and per-thread copies of instructions in a table that
 * may move during a read. It is queried through the C API instead.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "callsite/cpython_api.h"

static const struct layout layouts[] = {
    {.minor = 10,
     .thread_frame = 24,
     .nested = -1,
     .code = 32,
     .back = 24,
     .instruction = 96,
     .owner = -1,
     .first_line = 40,
     .file = 104,
     .name = 112,
     .lines = 120,
     .traceable = -1,
     .start = -1,
     .text_ascii = 48,
     .text_other = 72},
    {.minor = 11,
     .thread_frame = 56,
     .nested = 8,
     .code = 32,
     .back = 48,
     .instruction = 56,
     .owner = 69,
     .first_line = 72,
     .file = 112,
     .name = 120,
     .lines = 136,
     .traceable = 168,
     .start = 184,
     .text_ascii = 48,
     .text_other = 72},
    {.minor = 12,
     .thread_frame = 56,
     .nested = 0,
     .code = 0,
     .back = 8,
     .instruction = 56,
     .owner = 70,
     .first_line = 68,
     .file = 112,
     .name = 120,
     .lines = 136,
     .traceable = 176,
     .start = 192,
     .text_ascii = 40,
     .text_other = 56},
};

/* Positions in `_Py_DebugOffsets`, at the beginning of `_PyRuntime`, by release: numbers of the
 * 64-bit words at which the sections of thread states, frames and code objects begin. */
static const struct {
    int minor, thread, frame, code;
} sections[] = {{13, 19, 28, 34}, {14, 22, 31, 39}};

/* Return true if Python publishes its offsets. A string has the size as in 3.12, and the offset of
 * the first traceable instruction is not published: two words before the instructions. */
static bool published(int minor, const uint64_t *runtime, struct layout *l)
{
    if (runtime == NULL || memcmp(runtime, "xdebugpy", sizeof *runtime) != 0 ||
        runtime[1] >> 16 != (0x300u | (unsigned)minor) || runtime[2] != 0 /* free-threaded */)
        return false;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const uint64_t *const thread = runtime + sections[i].thread;
        const uint64_t *const frame = runtime + sections[i].frame;
        const uint64_t *const code = runtime + sections[i].code;

        if (sections[i].minor != minor)
            continue;
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
    return false;
}

/* Find the layout for a version string of Py_GetVersion and the address of `_PyRuntime`, which may
 * be NULL. Returns false if the version is untested. */
bool python_layout_find(const char *version, const void *runtime, struct layout *l)
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
