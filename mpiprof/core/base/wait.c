/* Waiting for a request with a deadline, for exchanges with ranks that may never answer.
 *
 * In MPI_Finalize other ranks may be gone: aborted with a sub-communicator, or killed under a
 * launcher that leaves the rest of the job alone. No rank can detect which ranks are gone. A late
 * rank will still arrive, and MPI_Finalize itself usually waits for it. So a rank waits there at
 * most WAIT_FINALIZE_NS from its own arrival, and only to compare clocks.
 */
#include "base/communication.h"

#include "base/pmpi.h"

enum { BUSY_TESTS = 1000 };

/* Wait for a request. Returns false if the deadline has passed or the operation has failed. */
bool wait_until(MPI_Request *request, int64_t deadline)
{
    const struct timespec pause = {.tv_nsec = 100000};
    int done = 0;

    for (int tries = 0; !done; tries++) {
        if (pmpi.Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (!done && now_ns() > deadline)
            return false;
        if (!done && tries > BUSY_TESTS)
            nanosleep(&pause, NULL);
    }
    return true;
}

/* Cancel a receive. The library may still write to the memory, so the caller must not free it. */
void wait_cancel(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL)
        return;
    pmpi.Cancel(request);
    pmpi.Request_free(request);
}
