/* Constants by which a Fortran program ignores statuses. */
#include "base/pmpi.h"

/* Return true for Open MPI's constants, and for those of MPICH's f08 layer. */
bool status_is_ignored_fortran(const void *status)
{
    for (size_t i = 0; i < 4; i++)
        if (status != NULL &&
            (status == pmpi.fortran_status_ignore[i] || status == pmpi.fortran_statuses_ignore[i]))
            return true;
    return false;
}
