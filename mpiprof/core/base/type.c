/* Size and extent of a datatype. */
#include "base/mpi_types.h"
#include "base/pmpi.h"

struct type_properties type_properties(MPI_Datatype type)
{
    MPI_Count size = 0;
    MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    int integers, addresses, types, combiner = -1;

    pmpi.Type_size_x(type, &size);
    pmpi.Type_get_extent(type, &lower, &extent);
    pmpi.Type_get_true_extent(type, &true_lower, &true_extent);
    pmpi.Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return (struct type_properties){size,       lower,       extent,
                                    true_lower, true_extent, combiner == MPI_COMBINER_NAMED};
}
