/* Message about processes that the program starts with MPI: its trace does not contain them.
 *
 * No launcher passes the recorder's environment on to spawned processes. If the program spawns them
 * through mpiprof, they form a separate job with a separate trace. The wrappers call this file
 * after a successful spawn. Only the root knows the command.
 */
#include <string.h>

#include "base/recorder.h"
#include "record/communicator.h"
#include "tracefile/tracefile.h"

static bool names_mpiprof(const char *command, char *const *argv)
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

/* Report once per process, because a program may spawn repeatedly. */
void spawn_report(const struct creation *c, int root, const char *command, char *const *argv)
{
    static atomic_bool said;

    if (c->parent == NULL || c->parent->rank != root || names_mpiprof(command, argv) ||
        atomic_exchange(&said, true))
        return;
    file_write_note(
        "the processes that MPI_Comm_spawn started are not in this trace; to record them, spawn "
        "'python -m mpiprof run -- PROGRAM' in place of PROGRAM");
    recorder_print("rank %d: the processes that MPI_Comm_spawn starts are not recorded; to record "
                   "them, spawn 'python -m mpiprof run -- PROGRAM' in place of PROGRAM",
                   recorder.rank);
}
