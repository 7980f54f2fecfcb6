/* State of this process, its lock, callbacks, and messages to the user (recorder.c). */
#pragma once
#include "base/base.h"
#include "base/symbol_lookup.h"

struct options {
    const char *trace, *base, *program, *command, *machine, *skip_packages, *version, *invocation;
    const char *commit; /* of the program's repository, empty if unknown */
    const char *job;    /* identity of the job, unique on this system */
    const char *alone;  /* trace folder of a process that cannot learn it from others */
    unsigned sample;
    int stack;
    int64_t limit; /* maximum size of a rank's log in bytes */
    /* with more ranks, the ranks of a node share files, even on a single node */
    int node_files_above;
    /* communicators of one type with separate rows in the tables, before others share rows */
    int alike;
    int runs;     /* maximum number of runs in a list of members that each member writes */
    int64_t ring; /* bytes of the newest events that the log retains; 0 for all events */
    int64_t where_period_us; /* between two samples of --where */
    bool summary;            /* write no events */
    bool totals;             /* totals of all calls by call site, in a summary or beside events */
    bool partial, quiet;
    bool share;      /* others may read the trace, as far as the umask lets them */
    bool intervals;  /* log intervals between calls, with counters */
    bool where;      /* sample what the program does before its calls */
    bool several;    /* the launch has parts */
    bool together;   /* all ranks record, of all parts; else a script may choose by rank */
    bool unrecorded; /* no trace can be made here: this process only takes part */
    enum { PYTHON_AUTO, PYTHON_ALWAYS, PYTHON_NEVER } python;
    const char *marks;    /* folder where the launch's parts announce themselves, or NULL */
    int rank;             /* rank by the launcher's variables, or -1 if unknown */
    const char *node;     /* replaces the name of this node's clock in tests, or NULL */
    const char *messages; /* how much of messages is recorded: off, sums, auto or all */
    const char *library;  /* file of this library, or NULL */
    const char *rules;    /* rules that select algorithms */
    const char *model;    /* alpha, beta, pace and buffer, or NULL */
    const char *learn;    /* file for the measured model corrections, or NULL */
    const char *learned;  /* model corrections of other jobs, or NULL */
    bool chooses, reproducible;
    int64_t scratch; /* bytes that algorithms may use in a call */
};
struct recorder {
    atomic_bool active;
    atomic_bool paused;         /* after MPI_Pcontrol(0): calls are counted, not recorded */
    atomic_bool stopped;        /* disk full: calls are counted, records dropped */
    atomic_bool logs_intervals; /* threads log intervals between calls (interval.c) */
    atomic_bool limited;        /* the log has its maximum size: calls are counted and summed up */
    bool switching;             /* calls may run on catalogue algorithms */
    bool by_site;               /* some rules name call sites */
    bool agreed;                /* all ranks have the same rules and the same recorder */
    bool shares_files;          /* with the other ranks of its node */
    bool sessions;              /* Sessions without MPI_COMM_WORLD */
    /* under Sessions: this process began with others that had begun earlier */
    bool begun_apart;
    bool passive;           /* this process never had files to write */
    bool speaks;            /* this process prints messages for all that write to this folder */
    atomic_uint generation; /* incremented whenever a handle may refer to another communicator */
    atomic_int pending; /* nonblocking and persistent operations that are not complete or freed */
    int rank, size;     /* in MPI_COMM_WORLD, or in mpi://WORLD under Sessions */
    uint64_t job;
    const char *wrapped; /* level of the entry points that are wrapped */
    int64_t entered_ns;  /* time of MPI_Init */
    MPI_Comm private;    /* duplicate of the first communicator, or MPI_COMM_NULL */
    MPI_Group world;
    char folder[PATH_BYTES];
    char note[256]; /* note for the tables, written when they are open */
    struct options options;
};

struct call;
struct communicator;
struct site;

/* Callbacks from recording to the layers above it. lifecycle.c sets them before anything is
 * recorded, and they never change afterwards. */
struct hooks {
    void (*ended)(struct call *c, bool observed); /* a call with use of the private communicator */
    void (*freed)(struct communicator *c);        /* all members have freed it */
    void (*forgotten)(struct communicator *c); /* its private communicator is about to be freed */
    void (*inherited)(struct communicator *child, const struct communicator *parent);
    void (*site_met)(struct site *s, const char *frames); /* new site; under recorder.lock */
    size_t comm_state_bytes; /* of executor/private_comm.h, behind each communicator's entry */
    bool (*group_created)(MPI_Comm comm); /* Sessions; true if selections agree */
};
extern struct hooks hooks;
extern struct recorder recorder;
void recorder_lock(void);
void recorder_unlock(void);
void recorder_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
