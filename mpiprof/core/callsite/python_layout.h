/* Offsets in Python's structures (python_layout.c). */
#pragma once
#include <stdbool.h>

struct layout {                         /* in bytes */
    int minor;                          /* 3.minor */
    int thread_frame, nested;           /* nested is -1 if it is the frame itself */
    int code, back, instruction, owner; /* of a frame; owner -1 if missing */
    int first_line, file, name, lines;  /* of a code object */
    int traceable, start;               /* start is -1 if instructions are counted */
    int text_ascii, text_other;         /* offsets of a string's characters */
};
bool python_layout_find(const char *version, const void *runtime, struct layout *l);
enum { OBJECT_TYPE = 8, OBJECT_SIZE = 16, TEXT_STATE = 32, BYTES_DATA = 32 };
