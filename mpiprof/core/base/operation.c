/* Properties of operations, generated from the table in mpiprof/facts/operations.py by
 * generator/wrappers.py. */
#include "base/operation.h"

const char *const operation_names[OP_COUNT] = {OPERATION_NAMES};

static const unsigned char wait_rules[] = {OPERATION_WAIT_RULES}, reduces[] = {OPERATION_REDUCES},
                           sized[] = {OPERATION_SIZED};

_Static_assert(sizeof wait_rules == OP_COLLECTIVES, "a row for each form of each collective");

enum wait_rule operation_wait_rule(int operation)
{
    return operation < OP_COLLECTIVES ? (enum wait_rule)wait_rules[operation] : WAIT_UNSPECIFIED;
}

bool operation_reduces(int operation)
{
    return operation < OP_COLLECTIVES && reduces[operation];
}

bool operation_is_sized(int operation)
{
    return operation < OP_COLLECTIVES && sized[operation];
}
