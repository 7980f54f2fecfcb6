/* Facts about operations. */
#include "base/operation.h"
#include "base/native.h"

const char *const operation_names[OP_COUNT] = {OPERATION_NAMES};

bool operation_reduces(int operation)
{
    return operation == OP_reduce || operation == OP_allreduce || operation == OP_reduce_scatter ||
           operation == OP_reduce_scatter_block;
}

bool operation_is_v(int operation)
{
    return operation == OP_alltoallv || operation == OP_gatherv || operation == OP_scatterv;
}
