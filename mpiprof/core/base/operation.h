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

/* Properties of blocking collectives. They are false or WAIT_UNSPECIFIED for other operations. */
enum wait_rule operation_wait_rule(int operation); /* which ranks wait for which others */
bool operation_reduces(int operation);
bool operation_is_sized(int operation); /* all members know the sizes */
