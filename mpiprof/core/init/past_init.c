/* Report of a process that initialised MPI without the recorder.
 *
 * A program may define its own MPI_Init over PMPI_Init, or look MPI_Init up in the handle of a
 * library that it loads itself, as MPI.jl does. The recorder's wrapper then never runs, and nothing
 * is recorded. So the check runs when the process ends. A
 * process that never initialised MPI ends silently, as does a forked child.
 */
#include <unistd.h>

#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "tracefile/tracefile.h"

static pid_t process;

__attribute__((constructor)) static void begin(void)
{
    process = getpid();
}

__attribute__((destructor)) static void end(void)
{
    int (*initialised)(int *) = NULL;
    int flag = 0;

    if (recorder.wrapped != NULL || process != getpid() || library_setting_rank() > 0)
        return;
    *(void **)&initialised = symbol_lookup_address("PMPI_Initialized");
    if (initialised == NULL || initialised(&flag) != MPI_SUCCESS || !flag)
        return;
    if (symbol_lookup_is_foreign("MPI_Init") || symbol_lookup_is_foreign("MPI_Init_thread"))
        recorder_print("the program has its own MPI_Init, which bypasses the recorder, so there is "
                       "no trace: if it contains another MPI profiler, remove that profiler");
    else
        recorder_print("the program loads the MPI library itself and calls MPI_Init by a pointer "
                       "into it (dlopen, dlsym), which bypasses the recorder, so there is no "
                       "trace: link the program with the MPI library, or look its functions up "
                       "with dlsym(RTLD_DEFAULT)");
}
