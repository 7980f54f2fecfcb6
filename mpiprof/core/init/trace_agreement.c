/* Agreement of a job's processes on the trace folder in MPI_Init. Rank 0 creates the folder and
 * sends its name to all ranks that answer (bootstrap.c).
 *
 * With Sessions alone there is no communicator of all processes. Each communicator created from a
 * group runs this agreement, so that its members can verify that their selections agree. Some
 * members may have started earlier with another folder; members that start now use rank 0's folder.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/communication.h"
#include "base/pmpi.h"
#include "init/init.h"
#include "tracefile/tracefile.h"

static bool by_itself;     /* partial without --partial */
static atomic_bool joined; /* recorder.folder is set and will be written to */

/* Return true if this job is the first to write to a folder. Rank 0 checks on behalf of all: two
 * jobs that start at once would otherwise each store some ranks there. A second program of the same
 * job finds its own job name. */
static bool is_ours(const char *folder)
{
    static const char name[] = ".job";
    const char *const job = recorder.options.job;

    if (job[0] == '\0' || folder_add_mark(folder, name, job) || errno != EEXIST)
        return true;
    const size_t room = strlen(job) + 2; /* a longer name is cut, and still differs */
    char *const other = memory_allocate(room);
    const bool same =
        other != NULL && folder_read_mark(folder, name, other, room) && strcmp(other, job) == 0;

    memory_free(other);
    return same;
}

static void make_folder(struct verdict *v)
{
    const struct options *const o = &recorder.options;
    struct text meta = {0};
    const bool made = !o->unrecorded && folder_create_unique(v->folder, o->trace, o->base);
    const int reason = errno;

    v->state = (v->state & ~RECORDING) | (made ? RECORDING : 0);
    v->job = hash_mix((uint64_t)time(NULL) << 20 ^ (uint64_t)getpid(), (uint64_t)now_ns());
    if (!made && !o->unrecorded)
        recorder_print("cannot create the trace folder %s: %s; the program runs unrecorded",
                       v->folder, folder_error(reason));
    if (made && !o->partial && !is_ours(v->folder)) {
        v->state &= ~RECORDING;
        recorder_print(
            "another job writes to %s, so the program runs unrecorded: name another folder with -o",
            v->folder);
    }
    /* An earlier program of the script may have left its trace. With Sessions this is not checked,
     * because each communicator starts separately. */
    text_add(&meta, "%s/meta.json", v->folder);
    if ((v->state & RECORDING) && recorder.rank == 0 && !recorder.sessions && meta.bytes != NULL &&
        access(meta.bytes, F_OK) == 0)
        v->state |= TAKEN;
    text_free(&meta);
}

static void folder_agree(MPI_Comm comm, int rank, int size, bool with_world, struct verdict *v)
{
    struct options *const o = &recorder.options;
    const bool several = !o->partial && size > 1 && mpmd_has_parts(with_world);
    const bool heads = rank == 0 || (several && !mpmd_has_mark(tree_parent(rank)));
    const bool alone = o->partial || (several && !with_world);

    if (alone || (heads && rank > 0)) {
        o->partial = true;
        if (several && o->trace[0] == '\0')
            o->trace = o->alone;
        v->together = 0;
    }
    if (!alone && heads)
        make_folder(v);
    const bool met = !alone && bootstrap_run(comm, several, heads, false, v);

    if (!met) /* and not alone: out of memory */
        v->together = 0;
    if (rank == 0 && !met && !alone)
        v->state = 0;
    else if (v->folder[0] == '\0')
        make_folder(v);
    if (v->together == 0 && bootstrap_lacks_memory()) { /* each process decides alone */
        if (v->state & RECORDING)
            bootstrap_report_memory(1, 1);
        v->state &= ~RECORDING;
    }
    if (v->together != 0)
        mpmd_end();
    by_itself = several && v->together == 0;
    o->partial = v->together == 0;
    recorder.agreed = v->agreed != 0;
    recorder.begun_apart = (v->state & BEGUN) != 0;
    /* Members that stopped waiting may have written to the folder. */
    o->unrecorded |= !o->partial && (v->state & TAKEN) != 0;
    recorder.shares_files = (v->state & NODES) != 0 || recorder.size > o->node_files_above;
    /* Processes of a partial job agree on its number without messages. */
    recorder.job = v->together != 0 ? v->job : hash_text(7, v->folder, -1);
    memcpy(recorder.folder, v->folder, sizeof recorder.folder);
    atomic_store(&joined, (v->state & RECORDING) != 0);
}

/* Agree on the folder among the members of a communicator. Returns false if nothing is recorded. On
 * return, recorder.options.partial is true if the members must not communicate. */
bool trace_agreement_start(MPI_Comm comm, int rank, int size, bool with_world)
{
    struct verdict *const v = memory_allocate(sizeof *v); /* the thread's stack may be small */

    if (v == NULL)
        return false;
    v->together = v->agreed = 1;
    folder_agree(comm, rank, size, with_world, v);
    const bool records = (v->state & RECORDING) != 0;

    memory_free(v);
    return records;
}

/* With Sessions alone, verify on a later communicator from a group that all selections agree.
 * Returns false if they do not, or if the run is partial. Another thread may still be starting with
 * another communicator; then this process has no folder to send. */
bool trace_agreement_repeat(MPI_Comm comm)
{
    struct verdict *const v =
        recorder.options.partial ? NULL : memory_allocate(sizeof *v); /* not on a small stack */
    int rank = 0;

    if (v == NULL)
        return false;
    v->together = 1;
    v->job = recorder.job;
    pmpi.Comm_rank(comm, &rank);
    if (atomic_load(&joined)) {
        v->state = RECORDING;
        memcpy(v->folder, recorder.folder, sizeof v->folder);
    }
    const bool met = bootstrap_run(comm, false, rank == 0, true, v);
    const bool agreed = met && v->together != 0 && v->agreed != 0;

    bootstrap_end();
    memory_free(v);
    return agreed;
}

/* Report partial recording that the user did not request. */
void trace_agreement_report(void)
{
    if (by_itself && recorder.speaks)
        recorder_print("this launch has several parts, and some may run without mpiprof, so the "
                       "recorders send no messages (clocks are not synchronised, no algorithm is "
                       "selected): if all parts run with mpiprof, pass --together to each of them");
}
