/* Facts about operations: from the table of mpiprof/operations.py, by wrappers.py. */
#include "base/operation.h"
#include "base/native.h"

const char *const operation_names[OP_COUNT] = {OPERATION_NAMES};

static const unsigned char semantics[] = {OPERATION_SEMANTICS}, reduces[] = {OPERATION_REDUCES},
                           sized[] = {OPERATION_SIZED};

_Static_assert(sizeof semantics == OP_COLLECTIVES, "a row for each form of each collective");

/* Of what all make and that is recorded only, nothing is said. */
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
