/* How the processes of a job agree on the trace folder at MPI_Init: rank 0 makes it, and tells all
 * that it hears of (meeting.c).
 *
 * Under Sessions alone there is no communicator of all: each that is made from a group begins like
 * this, so that its members know of each other that they switch alike. Some may have begun before,
 * in a folder of their own; those that begin with them take rank 0's.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/common.h"
#include "base/hash.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/tree.h"
#include "life/join.h"
#include "life/meeting.h"
#include "life/parts.h"
#include "trace/folder.h"

static bool by_itself;     /* partial without having been asked to be */
static atomic_bool joined; /* recorder.folder is there, and will be written to */

/* Whether this job is the first to write to a folder, which rank 0 asks for all: two that start at
 * once would each have some of the ranks. A second program of one job finds its own name. */
static bool is_ours(const char *folder)
{
    static const char name[] = ".job";
    const char *const job = recorder.options.job;
    char other[PATH_BYTES] = "";

    if (job[0] == '\0' || folder_mark(folder, name, job) || errno != EEXIST)
        return true;
    return folder_marked(folder, name, other, sizeof other) && strcmp(other, job) == 0;
}

/* Whether an earlier program of this job has its trace there, as one that a script starts before
 * another. Under Sessions each communicator from a group begins for itself. */
static bool is_taken(const char *folder)
{
    char path[PATH_BYTES + 16];

    snprintf(path, sizeof path, "%s/meta.json", folder);
    return recorder.rank == 0 && !recorder.sessions && access(path, F_OK) == 0;
}

static void make_folder(struct verdict *v)
{
    const struct options *const o = &recorder.options;

    const bool made = !o->unrecorded && folder_make_unique(v->folder, o->trace, o->base);
    const int reason = errno;

    v->state = (v->state & ~RECORDING) | (made ? RECORDING : 0);
    v->job = hash_mix((uint64_t)time(NULL) << 20 ^ (uint64_t)getpid(), (uint64_t)now_ns());
    if (!made && !o->unrecorded)
        recorder_say("cannot make the trace folder %s: %s; the program runs unrecorded", v->folder,
                     folder_error(reason));
    if (made && !o->partial && !is_ours(v->folder)) {
        v->state &= ~RECORDING;
        recorder_say("another job writes to %s: the program runs unrecorded; name another folder "
                     "with -o",
                     v->folder);
    }
    if ((v->state & RECORDING) && is_taken(v->folder))
        v->state |= TAKEN;
}

/* A number that all processes of a partial job agree on without a message: from the folder. */
static uint64_t job_of_folder(const char *folder)
{
    return hash_text(7, folder, -1);
}

/* Agrees on the folder among the members of a communicator; false: nothing is recorded. On
 * return recorder.options.partial says whether the members may communicate. */
bool join_start(MPI_Comm comm, int rank, int size, bool with_world)
{
    struct options *const o = &recorder.options;
    struct verdict v = {.together = 1, .agreed = 1};
    const bool several = !o->partial && size > 1 && parts_several(with_world);
    const bool heads = rank == 0 || (several && !parts_knows(tree_parent(rank)));
    const bool alone = o->partial || (several && !with_world);
    bool met = false;

    if (alone || (heads && rank > 0)) {
        o->partial = true;
        if (several && o->trace[0] == '\0')
            o->trace = o->alone;
        v.together = 0;
    }
    if (!alone && heads)
        make_folder(&v);
    if (!alone)
        met = meeting_hold(comm, several, heads, false, &v);
    if (!met) /* and not alone: no memory */
        v.together = 0;
    if (rank == 0 && !met && !alone)
        v.state = 0;
    else if (v.folder[0] == '\0')
        make_folder(&v);
    if (v.together == 0 && meeting_harms()) { /* each for itself */
        if (v.state & RECORDING)
            meeting_say_harmed(1, 1);
        v.state &= ~RECORDING;
    }
    if (v.together != 0)
        parts_end();
    by_itself = several && v.together == 0;
    o->partial = v.together == 0;
    recorder.agreed = v.agreed != 0;
    recorder.begun_apart = (v.state & BEGUN) != 0;
    /* Members that have given up waiting have written it. */
    o->unrecorded |= !o->partial && (v.state & TAKEN) != 0;
    recorder.shares_files = (v.state & NODES) != 0 || recorder.size > o->node_files_above;
    recorder.job = v.together != 0 ? v.job : job_of_folder(v.folder);
    memcpy(recorder.folder, v.folder, sizeof recorder.folder);
    atomic_store(&joined, (v.state & RECORDING) != 0);
    return (v.state & RECORDING) != 0;
}

/* Under Sessions alone, of another communicator from a group, when this process has begun: whether
 * its members know of each other that they switch alike. Another thread may still be beginning, with
 * another communicator: then this process has no folder to tell of. */
bool join_again(MPI_Comm comm)
{
    struct verdict v = {.together = 1, .job = recorder.job};
    int rank = 0;

    if (recorder.options.partial)
        return false;
    pmpi.Comm_rank(comm, &rank);
    if (atomic_load(&joined)) {
        v.state = RECORDING;
        memcpy(v.folder, recorder.folder, sizeof v.folder);
    }
    const bool met = meeting_hold(comm, false, rank == 0, true, &v);

    meeting_end();
    return met && v.together != 0 && v.agreed != 0;
}

/* After the start: what goes without saying where it was asked for. */
void join_say(void)
{
    if (by_itself && recorder.speaks)
        recorder_say(
            "this launch has several parts, of which some may run without mpiprof: nothing "
            "is sent between processes (clocks stay unsynchronised, nothing is switched); "
            "if all run with it, give each of them --together");
}
