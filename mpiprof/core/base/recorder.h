/* The state of this process, its lock, and its voice: recorder.c. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/common.h"
#include "base/native.h"

struct options {
    const char *trace, *base, *program, *command, *machine, *skip_packages, *version, *invocation;
    const char *job;   /* its name, which no other job has here */
    const char *alone; /* the trace folder of a process that can't be told any */
    unsigned sample;
    int stack;
    int64_t limit;        /* bytes of a rank's log */
    int node_files_above; /* ranks: of more those of a node share files, be it the only one */
    int alike;            /* communicators that have rows of their own, of those that are alike */
    int runs;             /* of members that each of them writes */
    int64_t ring;         /* bytes of a rank's newest events that the log keeps; 0: all */
    bool summary;         /* no events */
    bool totals;          /* of all calls, by call site: in a summary, or beside events */
    bool partial, quiet;
    bool share;      /* others may read the trace, as far as the umask lets them */
    bool where;      /* sample what the program does before its calls */
    bool several;    /* the launch has parts */
    bool together;   /* all ranks record, of all parts; else a script may choose by rank */
    bool unrecorded; /* no trace can be made here: this process only takes part */
    enum { PYTHON_AUTO, PYTHON_ALWAYS, PYTHON_NEVER } python;
    const char *marks;   /* parts of the launch: where they tell each other; NULL: there are none */
    int rank;            /* there, as the launcher says; -1: it does not */
    const char *node;    /* stands in for the name of this node's clock, or NULL */
    const char *library; /* our own file, or NULL */
    const char *rules;   /* what to switch */
    const char *model;   /* alpha and beta, or NULL */
    const char *plan_out; /* where to write what was found, or NULL */
    const char *learn;    /* where to write how far off the model was, or NULL */
    const char *learned;  /* that of other jobs, or NULL */
    bool chooses, explains, reproducible;
    int64_t scratch; /* bytes that algorithms may take in a call */
};
struct recorder {
    atomic_bool active;     /* calls are recorded */
    atomic_bool paused;     /* MPI_Pcontrol(0): counted, not recorded */
    atomic_bool stopped;    /* disk full: counted, dropped */
    atomic_bool limited;    /* the log is as long as it may be: counted, summed up */
    bool switching;         /* calls may run on algorithms of ours */
    bool by_site;           /* some rules name call sites */
    bool names_sites;       /* sites have names, for messages */
    bool agreed;            /* all ranks were given the same rules, and run the same recorder */
    bool shares_files;      /* with the other ranks of its node */
    bool sessions;          /* there are Sessions alone, without MPI_COMM_WORLD */
    bool begun_apart;       /* of these: this process began with others that had before */
    bool passive;           /* this process never had files to write to */
    bool speaks;            /* for all that write to this folder */
    atomic_uint generation; /* changes whenever a handle comes to name another communicator */
    atomic_int pending;     /* nonblocking and persistent operations not complete or freed */
    int rank, size;         /* in MPI_COMM_WORLD, or in mpi://WORLD under Sessions */
    uint64_t job;
    const char *wrapped; /* level of the entry points that are wrapped */
    int64_t entered_ns;  /* MPI_Init */
    MPI_Comm private;    /* a duplicate of the first communicator, or MPI_COMM_NULL */
    MPI_Group world;
    char folder[PATH_BYTES];
    char note[256]; /* for the tables, once they are open */
    struct options options;
};

extern struct recorder recorder;
void recorder_lock(void);
void recorder_unlock(void);
void recorder_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
