/* Offsets in the structures of the tested Pythons: CPython 3.10 to 3.14 with GIL, on 64-bit
 * machines. Offsets are constant within a minor release; python_frame.c verifies them before the
 * first use.
 *
 * A free-threaded Python has other offsets, and per-thread copies of instructions in a table that
 * may move during a read. It is queried through the C API instead.
 */
#include <stdio.h>
#include <string.h>

#include "callsite/python_layout.h"

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
    {.minor = 13,
     .thread_frame = 72,
     .nested = -1,
     .code = 0,
     .back = 8,
     .instruction = 56,
     .owner = 70,
     .first_line = 68,
     .file = 112,
     .name = 120,
     .lines = 136,
     .traceable = 184,
     .start = 200,
     .text_ascii = 40,
     .text_other = 56},
    {.minor = 14,
     .thread_frame = 72,
     .nested = -1,
     .code = 0,
     .back = 8,
     .instruction = 56,
     .owner = 74,
     .first_line = 68,
     .file = 112,
     .name = 120,
     .lines = 136,
     .traceable = 192,
     .start = 208,
     .text_ascii = 40,
     .text_other = 56},
};

/* Return the layout for a version string of Py_GetVersion, or NULL if the version is untested. */
const struct layout *python_layout_for(const char *version)
{
    int major = 0, minor = 0;

    if (sizeof(void *) != 8 || strstr(version, "free-threading") != NULL ||
        sscanf(version, "%d.%d", &major, &minor) != 2 || major != 3)
        return NULL;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].minor == minor)
            return &layouts[i];
    return NULL;
}
