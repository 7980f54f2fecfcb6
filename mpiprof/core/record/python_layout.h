/* Where things stand in a Python's structures: python_layout.c. */
#pragma once

struct layout {                         /* bytes */
    int minor;                          /* 3.minor */
    int thread_frame, nested;           /* nested -1: it is the frame itself */
    int code, back, instruction, owner; /* of a frame; owner -1: none */
    int first_line, file, name, lines;  /* of a code object */
    int traceable, start;               /* start -1: instructions are counted */
    int text_ascii, text_other;         /* where a string's characters are */
};
const struct layout *python_layout_for(const char *version);
enum { OBJECT_TYPE = 8, OBJECT_SIZE = 16, TEXT_STATE = 32, BYTES_DATA = 32 };
