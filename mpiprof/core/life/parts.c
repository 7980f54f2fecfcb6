/* Launches of several parts, `mpiexec server : run worker`: who runs with a recorder, found out
 * without a message, as a bare process's own receive from anybody would get it.
 *
 *      before MPI_Init    each process:  its own name   -> "here"
 *      after it           each process:  the names of those
 *                                        it would hear of   -> "bare"
 *
 * Names are marks in a folder that all know beforehand: files that have their text at once, on
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

static char folder[PATH_BYTES]; /* of the marks; no other job has it */
static bool marked;             /* this process is known to all as one that records */
static int marked_rank;         /* as the launcher says */

enum { DIGITS = 16 };
static const char here[] = "here", bare[] = "bare";

static const char *name_of(char name[DIGITS], int rank)
{
    snprintf(name, DIGITS, "%d", rank);
    return name;
}

void parts_mark(void)
{
    const struct options *const o = &recorder.options;
    char name[DIGITS];

    if (o->marks == NULL || o->rank < 0 || folder[0] != '\0' ||
        !folder_make_unique(folder, o->marks, NULL))
        return;
    marked_rank = o->rank;
    marked = folder_mark(folder, name_of(name, marked_rank), here);
}

/* Whether a rank of MPI_COMM_WORLD records; from here on it is so for all who ask. */
static bool is_here(int rank)
{
    char name[DIGITS], text[8];

    name_of(name, rank);
    if (folder[0] == '\0' || (!folder_marked(folder, name, text, sizeof text) &&
                              (folder_mark(folder, name, bare) || errno != EEXIST ||
                               !folder_marked(folder, name, text, sizeof text))))
        return false;
    return strcmp(text, here) == 0;
}

/* Whether another rank of MPI_COMM_WORLD records, and knows that this process does. */
bool parts_knows(int rank)
{
    return marked && marked_rank == recorder.rank && is_here(rank);
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

/* All have looked: the marks have served. The folder goes with the last of them. */
void parts_end(void)
{
    char name[DIGITS];

    if (marked)
        folder_unmark(folder, name_of(name, marked_rank));
    if (folder[0] != '\0')
        rmdir(folder);
}
