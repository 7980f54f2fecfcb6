/* Statuses that the library fills, and the constants by which a program ignores them. */
#include "base/pmpi.h"

bool status_is_ignored(const void *status, bool fortran)
{
    if (!fortran)
        return status == MPI_STATUS_IGNORE;
#ifdef MPIPROF_ABI_openmpi
    for (size_t i = 0; i < 4; i++)
        if (status != NULL &&
            (status == pmpi.fortran_status_ignore[i] || status == pmpi.fortran_statuses_ignore[i]))
            return true;
#endif
    return false;
}

const void *status_readable(const void *status, bool fortran)
{
#ifdef MPIPROF_ABI_mpich /* the addresses of the f08 layer's constants are unknown */
    if (fortran)
        return NULL;
#endif
    return status_is_ignored(status, fortran) ? NULL : status;
}

/* Return the bytes of a received message, or -1 if they are unknown or it was cancelled. */
int64_t status_bytes(const void *status)
{
    const int *const s = status;
#if defined(MPIPROF_ABI_mpich)
    const bool cancelled = (s[1] & 1) != 0; /* then the count is undefined */

    return cancelled ? -1 : (int64_t)(uint32_t)s[0] | (int64_t)(s[1] >> 1) << 32;
#elif defined(MPIPROF_ABI_openmpi)
    const bool cancelled = s[3] != 0;

    return cancelled ? -1 : (int64_t)*(const size_t *)(const void *)(s + 4);
#else
    MPI_Count bytes = -1;

    (void)s;
    return pmpi.can_switch && pmpi.Get_elements_x(status, MPI_BYTE, &bytes) == MPI_SUCCESS ? bytes
                                                                                           : -1;
#endif
}
