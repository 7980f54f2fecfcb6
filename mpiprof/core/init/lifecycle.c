/* Start and end of recording, from MPI_Init to MPI_Finalize, and MPI_Pcontrol.
 *
 * The recorder is passive until MPI_Init has succeeded, and in a process without a trace. A passive
 * wrapper costs one comparison and the native call. MPI allows one thread at a time in this file.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/communication.h"
#include "base/mpi_t.h"
#include "base/pmpi.h"
#include "callsite/callsite.h"
#include "executor/private_comm.h"
#include "init/init.h"
#include "record/communicator.h"
#include "record/interval.h"
#include "record/message_epochs.h"
#include "record/node_pressure.h"
#include "record/poll.h"
#include "record/quota_use.h"
#include "record/record.h"
#include "selection/dispatch/select.h"
#include "selection/online/key.h"
#include "selection/rules/rules.h"
#include "timing/timing.h"
#include "tracefile/tracefile.h"

enum { NOTHING, INIT, A_SESSION };
static atomic_int sessions, begun_by; /* INIT or A_SESSION, set once per process */
static bool launched_alone;           /* without a launcher */

static bool writes_meta(int rank)
{
    return rank == 0 || recorder.options.partial;
}

/* Open the files of this rank or of its node. Their names contain a hash of the node's clock,
 * because nodes may share a host name and mapped files are shared only within a node. */
static bool open_files(const char *host)
{
    char node[300];

    snprintf(node, sizeof node, "%s-%08x", host, (unsigned)clock_node_hash());
    return file_open(recorder.folder, recorder.rank, recorder.shares_files ? node : NULL);
}

/* Duplicate a communicator. MPI_Comm_split would allgather two numbers per rank. */
static bool make_private(MPI_Comm comm)
{
    MPI_Group members;

    if (pmpi.Comm_group(comm, &members) != MPI_SUCCESS)
        return false;
    const int error = pmpi.Comm_create(comm, members, &recorder.private);

    pmpi.Group_free(&members);
    if (error != MPI_SUCCESS)
        recorder.private = MPI_COMM_NULL;
    return error == MPI_SUCCESS;
}

/* Create the private communicator. Returns the obstacle to synchronising clocks, or NULL. */
static const char *clocks_obstacle(MPI_Comm comm)
{
    if (recorder.size < 2)
        return "machine table: one rank";
    if (recorder.begun_apart)
        return "clocks and machine table: other ranks had called MPI_Init earlier";
    if (recorder.options.partial)
        return "clocks and machine table: partial run";
    if (!make_private(comm))
        return "clocks and machine table: no private communicator";
    if (clock_nodes(recorder.private))
        return NULL;
    pmpi.Comm_free(&recorder.private);
    return "clocks and machine table: no memory";
}

/* Synchronise clocks and measure the machine table, if the processes may communicate. Only the
 * first rank reads a table's file and decides whether to measure, because other ranks may not see
 * the file. */
static void machine_table_make(MPI_Comm comm, int rank, struct text *machine, struct text *skipped)
{
    const char *const file = recorder.options.machine;
    char known = 0;

    recorder.private = MPI_COMM_NULL;
    if (file != NULL && writes_meta(rank) && !text_read(machine, file))
        recorder_print("cannot read the machine table %s: %s", file, strerror(errno));
    const char *const obstacle = clocks_obstacle(comm);

    if (obstacle != NULL) {
        text_add(skipped, "\"%s\"", obstacle);
        return;
    }
    clock_synchronise("init", INT64_MAX);
    if (clock_layout.nodes < 2)
        text_add(skipped, "\"machine table between nodes: one node\"");
    known = machine->length > 0;
    tree_broadcast(&known, sizeof known, false, recorder.private);
    if (!known) {
        machine_measure(machine, false);
        if (!machine_can_reduce())
            text_add(skipped, "%s\"reductions: this MPI has none outside MPI_COMM_WORLD\"",
                     skipped->length > 0 ? ", " : "");
    }
    /* All ranks plan with the parameters of the slowest link. */
    struct link link = alpha_beta_fit_slowest_link(machine->bytes);

    tree_broadcast(&link, sizeof link, false, recorder.private);
    machine_link_set(&link, clock_layout.nodes < 2);
    /* From here on, errors return: in MPI_Finalize, no error on this communicator may end a job
     * that has outlived a lost process. */
    if (pmpi.Comm_set_errhandler != NULL)
        pmpi.Comm_set_errhandler(recorder.private, MPI_ERRORS_RETURN);
}

/* Deactivate the recorder in a forked child, which shares windows and files but is no rank. */
static void child_deactivate(void)
{
    atomic_store(&recorder.active, false);
}

/* ---- start */

/* Start recording once per process; MPI_Init does not restart recording that ended with the last
 * session. Returns false if it was started before, or if this process records nothing. */
static bool recording_start(MPI_Comm comm, bool sessions_only)
{
    char host[256] = "node";
    struct text machine = {0}, skipped = {0};
    int rank = 0, size = 1, none = NOTHING;

    if (!atomic_compare_exchange_strong(&begun_by, &none, sessions_only ? A_SESSION : INIT))
        return false;
    gethostname(host, sizeof host - 1);
    recorder.sessions = sessions_only;
    pmpi.Comm_rank(comm, &rank);
    pmpi.Comm_size(comm, &size);
    const bool recording = trace_agreement_start(comm, rank, size, !sessions_only);

    if (sessions_only) /* a later disconnect of `comm` would wait for pending receives */
        bootstrap_end();
    if (!recording)
        return false;
    bus_error_install();
    if (recorder.options.unrecorded || !open_files(host)) {
        /* EEXIST means another process claimed the file: a child, or a job inside the job, stays
         * passive silently. For an unrecorded run the launcher has reported the reason. */
        const int reason = recorder.options.unrecorded ? EEXIST : errno;

        atomic_store(&recorder.stopped, true);
        recorder.passive = true;
        bus_error_uninstall();
        if (reason != EEXIST)
            recorder_print("rank %d cannot write to %s: %s; the rank runs unrecorded",
                           recorder.rank, recorder.folder, folder_error(reason));
    }
    record_start_up();
    poll_start();
    callsite_start();
    meta_write_process(host, clock_node());
    if (recorder.note[0] != '\0')
        file_write_note("%s", recorder.note);
    machine_table_make(comm, rank, &machine, &skipped);
    if (writes_meta(rank))
        recorder.speaks =
            meta_write_run(!sessions_only, &machine, skipped.bytes != NULL ? skipped.bytes : "") ||
            !recorder.options.partial;
    trace_agreement_report();
    if (sessions_only && recorder.private != MPI_COMM_NULL)
        pmpi.Comm_free(&recorder.private);
    text_free(&machine);
    text_free(&skipped);
    if (!sessions_only)
        comm_start();
    if (!recorder.options.partial)
        select_start();
    pthread_atfork(NULL, NULL, child_deactivate);
    if (!recorder.passive)
        fatal_signal_install();
    presite_sample_start();
    python_exception_start();
    message_epoch_start();
    quota_use_start();
    interval_start();
    if (recorder.options.summary && recorder.options.sample > 1)
        file_write_note("--sample: --record summary counts every call, not one in %u",
                        recorder.options.sample);
    atomic_store(&recorder.active, true);
    return true;
}

/* Runs before MPI_Init or MPI_Session_init, when most programs have a single thread, because the
 * library has not started its threads yet. */
void lifecycle_initialising(const char *wrapped)
{
    static atomic_bool begun;

    recorder.entered_ns = now_ns();
    recorder.wrapped = wrapped;
    if (atomic_exchange(&begun, true) || !pmpi_find_functions())
        return;
    launched_alone = library_setting_rank() < 0; /* MPI_Init may set these variables */
    options_read();
    single_thread_start();
    hooks = (struct hooks){.ended = select_ended,
                           .freed = private_comm_freed,
                           .forgotten = keys_free,
                           .inherited = keys_inherit,
                           .comm_state_bytes = sizeof(struct comm_state),
                           .site_met = rules_match_site,
                           .group_created = lifecycle_group_created};
    site_remember_folder();
    python_site_start();
    options_clear_environment();
}

void lifecycle_initialised(int error)
{
    if (error != MPI_SUCCESS || atomic_load(&recorder.active) || !pmpi_find_functions())
        return;
    pmpi.Comm_rank(MPI_COMM_WORLD, &recorder.rank);
    pmpi.Comm_size(MPI_COMM_WORLD, &recorder.size);
    memory_start(recorder.size);
    if (pmpi.Comm_group(MPI_COMM_WORLD, &recorder.world) == MPI_SUCCESS)
        recording_start(MPI_COMM_WORLD, false);
}

/* A new session communicates nothing, because not all processes need to create one. The members of
 * mpi://WORLD are known locally. Recording starts with the first communicator from a group. */
void lifecycle_session(int error, MPI_Session session)
{
    if (error != MPI_SUCCESS || !pmpi_find_functions() || pmpi.Group_from_session_pset == NULL ||
        pmpi.Group_rank == NULL)
        return;
    atomic_fetch_add(&sessions, 1);
    if (recorder.rank >= 0)
        return;
    if (pmpi.Group_from_session_pset(session, "mpi://WORLD", &recorder.world) != MPI_SUCCESS)
        return;
    pmpi.Group_rank(recorder.world, &recorder.rank);
    pmpi.Group_size(recorder.world, &recorder.size);
    memory_start(recorder.size);
}

/* Handle a communicator created from a group; the members of the first one agree on the folder.
 * Returns true if the members verified that their selections agree. */
bool lifecycle_group_created(MPI_Comm comm)
{
    if (recorder.rank < 0)
        return false;
    if (recording_start(comm, true))
        return recorder.agreed;
    return atomic_load(&begun_by) == A_SESSION ? trace_agreement_repeat(comm) : recorder.agreed;
}

/* ---- end */

/* End recording, between the recorded entry and exit of MPI_Finalize. */
static void end_recording(void)
{
    bootstrap_end();
    if (!atomic_exchange(&recorder.active, false))
        return;
    fatal_signal_uninstall();
    presite_sample_end();
    affinity_read(now_ns());
    quota_use_end();
    interval_end();
    stalled_call_end();
    node_pressure_end();
    select_end();
    if (recorder.private != MPI_COMM_NULL && !recorder.sessions) {
        clock_synchronise("finalize", now_ns() + WAIT_FINALIZE_NS);
        pmpi.Comm_free(&recorder.private);
    }
    end_record_write("finalize", false);
    pmpi.Group_free(&recorder.world);
    if (record_dropped() > 0 && !recorder.passive)
        recorder_print("rank %d: %llu calls are missing from the trace", recorder.rank,
                       (unsigned long long)record_dropped());
    if (recorder.speaks && !recorder.passive)
        end_record_report(launched_alone);
}

void lifecycle_finalising(struct management_collective *g, const void *address)
{
    struct communicator *const world =
        atomic_load(&recorder.active) && !recorder.sessions ? comm_find(MPI_COMM_WORLD) : NULL;

    g->recorded = false;
    if (world != NULL && world->size > 1)
        management_collective_begin(g, OP_finalize, management_collective_order(world), SPENT_OTHER,
                                    address);
    end_recording();
}

/* After MPI_Finalize only the recorder's files remain. A rank may wait long for others inside
 * MPI_Finalize, so the end record is written again. */
void lifecycle_finalised(struct management_collective *g, int error)
{
    if (error == MPI_SUCCESS && g->recorded) {
        management_collective_end(g, error);
        end_record_write("finalize", true);
    }
    if (error == MPI_SUCCESS)
        mpi_t_end();
    file_close();
    bus_error_uninstall();
}

void lifecycle_aborting(const void *address)
{
    if (!atomic_load(&recorder.active))
        return;
    python_exception_abort(address);
    end_record_write("abort", false);
}

void lifecycle_session_ending(void)
{
    if (atomic_fetch_sub(&sessions, 1) == 1 && recorder.sessions) {
        end_recording();
        file_close();
        bus_error_uninstall();
    }
}

/* MPI_Pcontrol is variadic: only the level is forwarded; other arguments for a tool are lost. */
static void pcontrol_apply(int level)
{
    if (!atomic_load(&recorder.active))
        return;
    poll_interrupt();
    if (level == 2)
        record_flush();
    if ((level == 0 || level == 1) && atomic_exchange(&recorder.paused, level == 0) != (level == 0))
        message_epoch_pause(level == 0);
}

PUBLIC int MPI_Pcontrol(const int level, ...)
{
    int (*const native)(const int, ...) =
        (int (*)(const int, ...))symbol_lookup_get(NATIVE_MPI_Pcontrol);

    pcontrol_apply(level);
    return native != NULL ? native(level) : MPI_SUCCESS;
}

#ifdef MPIPROF_FORTRAN
PUBLIC void mpi_pcontrol_f08_(const MPI_Fint *level)
{
    pcontrol_apply(*level);
}
#ifdef MPIPROF_ABI_openmpi
PUBLIC void mpi_pcontrol_(const MPI_Fint *level) __attribute__((alias("mpi_pcontrol_f08_")));
PUBLIC void mpi_pcontrol__(const MPI_Fint *level) __attribute__((alias("mpi_pcontrol_f08_")));
PUBLIC void mpi_pcontrol(const MPI_Fint *level) __attribute__((alias("mpi_pcontrol_f08_")));
PUBLIC void MPI_PCONTROL(const MPI_Fint *level) __attribute__((alias("mpi_pcontrol_f08_")));
#endif
#endif
