/* What is said of processes that the program starts by MPI: they have no part in its trace.
 *
 * Neither launcher hands our environment on to them. Where the program spawns them through mpiprof,
 * they are a job of their own, with a trace of its own. The wrappers come here when the call has
 * succeeded; of the processes that call together only the root knows the command.
 */
#include <string.h>

#include "base/recorder.h"
#include "record/comm.h"
#include "record/spawn.h"
#include "trace/file.h"

static bool names_us(const char *command, char *const *argv)
{
    if (command == NULL)
        return false;
    if (strstr(command, "mpiprof") != NULL)
        return true;
    for (; argv != NULL && *argv != NULL; argv++)
        if (strstr(*argv, "mpiprof") != NULL)
            return true;
    return false;
}

/* Once a process: a program may spawn for each piece of its work. */
void spawn_remark(const struct creation *c, int root, const char *command, char *const *argv)
{
    static atomic_bool said;

    if (c->parent == NULL || c->parent->rank != root || names_us(command, argv) ||
        atomic_exchange(&said, true))
        return;
    file_note(
        "the processes that MPI_Comm_spawn started are not in this trace; to record them, spawn "
        "'python -m mpiprof run -- PROGRAM' in place of PROGRAM");
    recorder_say("rank %d: the processes that MPI_Comm_spawn starts are not recorded; to record "
                 "them, spawn 'python -m mpiprof run -- PROGRAM' in place of PROGRAM",
                 recorder.rank);
}
