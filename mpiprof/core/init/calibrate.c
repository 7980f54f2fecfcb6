/* The MPI program behind `mpiprof calibrate`, called through ctypes after libmpi is loaded. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/pmpi.h"
#include "init/init.h"
#include "timing/timing.h"
#include "tracefile/tracefile.h"

PUBLIC int mpiprof_calibrate(const char *path)
{
    struct text machine = {0};
    int written = 1;

    recorder.wrapped = "calibrate"; /* no program has bypassed the recorder (past_init.c) */
    if (!pmpi_find_functions() || pmpi.Init(NULL, NULL) != MPI_SUCCESS)
        return 1;
    options_read();
    pmpi.Comm_rank(MPI_COMM_WORLD, &recorder.rank);
    pmpi.Comm_size(MPI_COMM_WORLD, &recorder.size);
    if (recorder.size > 1 &&
        pmpi.Comm_split(MPI_COMM_WORLD, 0, recorder.rank, &recorder.private) == MPI_SUCCESS) {
        if (clock_nodes(recorder.private))
            machine_measure(&machine, true);
        pmpi.Comm_free(&recorder.private);
    }
    if (machine.length > 0) {
        const int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

        text_add(&machine, "\n");
        written = descriptor >= 0 && file_write(descriptor, &machine);
        if (descriptor >= 0)
            close(descriptor);
    }
    if (!written)
        recorder_print("cannot write %s: %s", path, strerror(errno));
    const bool alone = recorder.size < 2;

    pmpi.Finalize();
    text_free(&machine);
    return alone ? 2 : written ? 0 : 1;
}
