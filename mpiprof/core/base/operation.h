/* Facts about operations, by their number. */
#pragma once
#include <stdbool.h>

#include "base/native.h"

extern const char *const operation_names[OP_COUNT];

/* Blocking, nonblocking or persistent, as the table of collectives numbers them. */
static inline int operation_form(int operation)
{
    return operation < OP_COLLECTIVES ? operation % 3 : 0;
}

/* Facts about blocking collectives; of what is only started nothing of them is true. */
enum semantics { SYNCHRONISES, FROM_ROOT, TO_ROOT, SCANS, OTHERWISE }; /* who waits for whom */
enum semantics operation_semantics(int operation);
bool operation_reduces(int operation);
bool operation_is_sized(int operation); /* all members know the sizes */
