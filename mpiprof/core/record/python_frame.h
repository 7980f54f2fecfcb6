/* The frames of the calling Python thread: python_frame.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/python_api.h"

/* What a frame says of where it is. All of it is alive while the frame's thread is in the call. */
struct frame_place {
    const object *code, *file, *name; /* file and name: str, NULL: none */
    int at, line;                     /* its instruction in bytes; line -1: not looked up yet */
    uint64_t key, file_key;           /* by contents, never by address */
};

bool python_frame_readable(object *thread);
object *python_frame_first(object *thread);
bool python_frame_next(object **frame, struct frame_place *p);
