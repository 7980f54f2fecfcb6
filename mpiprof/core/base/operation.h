/* Properties of operations, by operation number. */
#pragma once
#include <stdbool.h>

#include "base/symbol_lookup.h"

extern const char *const operation_names[OP_COUNT];

/* Return 0, 1 or 2 for blocking, nonblocking or persistent. */
static inline int operation_form(int operation)
{
    return operation < OP_COLLECTIVES ? operation % 3 : 0;
}

/* Properties of blocking collectives. They are false for operations that are only started. */
/* which ranks wait for which others */
enum semantics { SYNCHRONISES, FROM_ROOT, TO_ROOT, SCANS, OTHERWISE };
enum semantics operation_semantics(int operation);
bool operation_reduces(int operation);
bool operation_is_sized(int operation); /* all members know the sizes */
