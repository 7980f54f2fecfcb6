/* Launches of several parts, `mpiexec server : run worker`: who runs with a recorder, found out
 * without a message, as a bare process's own receive from anybody would get it.
 *
 *      before MPI_Init    each process:  its own name   -> "here"
 *      after it           rank 0:        every name     -> "bare"
 *                         the others:    rank 0's name  -> "bare"
 *
 * Names are symbolic links in a folder that all know beforehand: made with their text at once, on
 * network file systems too, and what stands first stays. So no two processes can disagree about a
 * third, however late it is; and one that was taken for bare knows it. Where the launcher could not
 * name such a folder, a process that is of a later part sends nothing, and nothing else is known.
 * One thread comes here, in MPI_Init.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/common.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "life/parts.h"
#include "trace/folder.h"

static char folder[PATH_BYTES]; /* of the links; no other job has it */
static bool marked;             /* this process is known to all as one that records */
static int marked_rank;         /* as the launcher says */

static bool link_of(char *path, int rank)
{
    return folder[0] != '\0' && snprintf(path, PATH_BYTES, "%s/%d", folder, rank) < PATH_BYTES;
}

void parts_mark(void)
{
    const struct options *const o = &recorder.options;
    char path[PATH_BYTES];

    if (o->marks == NULL || o->rank < 0 || folder[0] != '\0' ||
        !folder_make_unique(folder, o->marks, NULL))
        return;
    marked_rank = o->rank;
    marked = link_of(path, marked_rank) && symlink("here", path) == 0;
}

/* Whether a rank of MPI_COMM_WORLD records; from here on it is so for all who ask. */
static bool is_here(int rank)
{
    char path[PATH_BYTES], text[8];

    if (!link_of(path, rank) || symlink("bare", path) == 0 || errno != EEXIST)
        return false;
    return readlink(path, text, sizeof text) == 4 && memcmp(text, "here", 4) == 0;
}

/* Which of the ranks 1 .. size-1 may be sent to; for rank 0. */
void parts_find(bool *here, int size)
{
    for (int i = 1; i < size; i++)
        here[i] = marked && marked_rank == recorder.rank && is_here(i);
}

/* Whether rank 0 records, and knows that this process does. */
bool parts_leader(void)
{
    return marked && marked_rank == recorder.rank && is_here(0);
}

/* Whether processes of this launch may run bare, as far as a process can know by itself. */
bool parts_several(bool with_world)
{
    int *number = NULL, found = 0;

    if (recorder.options.together)
        return false;
    if (recorder.options.several)
        return true;
    return with_world && pmpi.Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found) == 0 &&
           found && *number > 0;
}

/* All have looked: the links have served. */
void parts_end(int size)
{
    char path[PATH_BYTES];

    for (int i = 0; i < size && link_of(path, i); i++)
        unlink(path);
    if (folder[0] != '\0')
        rmdir(folder);
}
