/* Detection of unrecorded processes in launches of several parts (`mpiexec server : run worker`).
 * Detection sends no message, because an unrecorded process's receive from MPI_ANY_SOURCE would
 * match it.
 *
 *      before MPI_Init    each process marks its own name "here"
 *      after MPI_Init     each process marks "bare" the missing names of ranks that it expects
 *                         messages from
 *
 * Names are marks in a folder that all processes know: files that have their text atomically,
 * also on network file systems. The first text stays. So two processes cannot disagree about a
 * third, however late it starts. A process that was marked bare can detect this. If the launcher
 * could not name such a folder, processes of later parts send nothing, and their state is unknown.
 * One thread enters this file, in MPI_Init.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/pmpi.h"
#include "init/init.h"
#include "tracefile/tracefile.h"

static SPARSE char folder[PATH_BYTES]; /* folder of the marks, unique to the job */
static bool marked;                    /* all processes can see that this process records */
static int marked_rank;                /* according to the launcher */

enum { DIGITS = 16 };
static const char here[] = "here", bare[] = "bare";

void mpmd_mark(void)
{
    const struct options *const o = &recorder.options;
    char name[DIGITS];

    if (o->marks == NULL || o->rank < 0 || folder[0] != '\0' ||
        !folder_create_unique(folder, o->marks, NULL))
        return;
    marked_rank = o->rank;
    snprintf(name, sizeof name, "%d", marked_rank);
    marked = folder_add_mark(folder, name, here);
}

/* Return true if a rank of MPI_COMM_WORLD records. The answer is final for all processes. */
static bool rank_records(int rank)
{
    char name[DIGITS], text[8];

    snprintf(name, sizeof name, "%d", rank);
    if (folder[0] == '\0' || (!folder_read_mark(folder, name, text, sizeof text) &&
                              (folder_add_mark(folder, name, bare) || errno != EEXIST ||
                               !folder_read_mark(folder, name, text, sizeof text))))
        return false;
    return strcmp(text, here) == 0;
}

/* Return true if another rank of MPI_COMM_WORLD records and this process is marked as recording. */
bool mpmd_has_mark(int rank)
{
    return marked && marked_rank == recorder.rank && rank_records(rank);
}

/* Return true if processes of this launch may run unrecorded, as far as this process can detect. */
bool mpmd_has_parts(bool with_world)
{
    int *number = NULL, found = 0;

    if (recorder.options.together)
        return false;
    if (recorder.options.several)
        return true;
    return with_world && pmpi.Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found) == 0 &&
           found && *number > 0;
}

/* Remove this process's mark after all processes have checked the marks. The last process removes
 * the folder. */
void mpmd_end(void)
{
    char name[DIGITS];

    snprintf(name, sizeof name, "%d", marked_rank);
    if (marked)
        folder_remove_mark(folder, name);
    if (folder[0] != '\0')
        rmdir(folder);
}
