/* Start and end of recording, from MPI_Init to MPI_Finalize. */
#pragma once
#include <signal.h>

#include "base/recorder.h"
#include "record/management_collectives.h"
#include "record/record.h"

/* ---- options that the launcher passes in environment variables (options.c) */

void options_read(void);
int64_t options_fingerprint(void);
void options_clear_environment(void);
const char *options_variable(const char *name);

/* ---- detection of unrecorded parts of a launch (mpmd.c) */

void mpmd_mark(void); /* called before MPI_Init */
bool mpmd_has_parts(bool with_world);
bool mpmd_has_mark(int rank);
void mpmd_end(void);

/* ---- handshake of all members of a communicator (bootstrap.c) */

enum {
    RECORDING = 1, /* a trace folder exists */
    BEGUN = 2,     /* some ranks started earlier */
    NODES = 4,     /* the ranks are on several nodes */
    TAKEN = 8      /* an earlier program of this job has its trace in the folder */
};
struct verdict {
    int64_t together; /* all ranks have answered and may communicate */
    int64_t state;    /* the flags above */
    int64_t agreed;   /* all ranks select algorithms by the same rules */
    uint64_t job;
    char folder[PATH_BYTES];
};

bool bootstrap_run(MPI_Comm comm, bool several, bool heads, bool begun, struct verdict *v);
bool bootstrap_lacks_memory(void);
void bootstrap_report_memory(int64_t harmed, int64_t ranks);
void bootstrap_end(void);

/* ---- agreement of a job's processes on the trace folder (trace_agreement.c) */

bool trace_agreement_start(MPI_Comm comm, int rank, int size, bool with_world);
bool trace_agreement_repeat(MPI_Comm comm);
void trace_agreement_report(void);

/* ---- SIGBUS in mapped files that were truncated (bus_error.c) */

void bus_error_install(void);
void bus_error_adopt(struct sigaction *old);
void bus_error_uninstall(void);

/* ---- recording of the signal that ends a rank (fatal_signals.c) */

int fatal_signal_action(int number, const struct sigaction *new, struct sigaction *old);
bool fatal_signal_is_deadly(const struct sigaction *a);
void fatal_signal_end(int number, siginfo_t *info, const struct sigaction *otherwise);
bool fatal_signal_restore(int number, struct sigaction *a);
void fatal_signal_install(void);
void fatal_signal_uninstall(void);

/* ---- the type of the C++ exception that ends a process (cxx_exception.c) */

void cxx_exception_find(void);
void cxx_exception_write(void);

/* ---- start and end of recording, from MPI_Init to MPI_Finalize (lifecycle.c) */

void lifecycle_initialising(const char *wrapped);
void lifecycle_initialised(int error);
void lifecycle_finalising(struct management_collective *g, const void *address);
void lifecycle_finalised(struct management_collective *g, int error);
void lifecycle_aborting(const void *address);
void lifecycle_session(int error, MPI_Session session);
void lifecycle_session_ending(void);
bool lifecycle_group_created(MPI_Comm comm);

/* ---- end of the record (end_record.c) */

void end_record_write(const char *reason, bool again);
void end_record_report(bool launched_alone);
