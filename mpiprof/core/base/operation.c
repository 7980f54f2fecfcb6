/* Properties of operations, generated from the table in mpiprof/operations.py by
 * generator/wrappers.py. */
#include "base/operation.h"
#include "base/symbol_lookup.h"

const char *const operation_names[OP_COUNT] = {OPERATION_NAMES};

static const unsigned char semantics[] = {OPERATION_SEMANTICS}, reduces[] = {OPERATION_REDUCES},
                           sized[] = {OPERATION_SIZED};

_Static_assert(sizeof semantics == OP_COLLECTIVES, "a row for each form of each collective");

/* Other operations that all members call are only recorded, so their semantics are unspecified. */
enum semantics operation_semantics(int operation)
{
    return operation < OP_COLLECTIVES ? (enum semantics)semantics[operation] : OTHERWISE;
}

bool operation_reduces(int operation)
{
    return operation < OP_COLLECTIVES && reduces[operation];
}

bool operation_is_sized(int operation)
{
    return operation < OP_COLLECTIVES && sized[operation];
}
