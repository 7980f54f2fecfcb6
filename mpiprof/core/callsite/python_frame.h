/* Frames of the calling Python thread (python_frame.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "callsite/cpython_api.h"

/* Location of a frame. All pointers are valid while the frame's thread is in the call. */
struct frame_place {
    const object *code, *file, *name; /* file and name: str, or NULL */
    int at, line;           /* byte offset of the instruction; line -1 if not looked up yet */
    uint64_t key, file_key; /* hashes of contents, never of addresses */
};

void python_frame_start(void);
bool python_frame_readable(object *thread);
object *python_frame_first(object *thread);
bool python_frame_next(object **frame, struct frame_place *p);
