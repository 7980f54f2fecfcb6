/* Clocks of the nodes, and message times of the machine. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/symbol_lookup.h"

/* ---- synchronisation of the nodes' clocks (clock.c) */

struct clock_layout { /* set by clock_nodes; ranks in recorder.private */
    int nodes;
    int neighbour;     /* shares a clock with rank 0; -1 for none */
    int second_leader; /* first rank of the second node; -1 for none */
};
extern struct clock_layout clock_layout;

bool clock_nodes(MPI_Comm comm);
void clock_synchronise(const char *when, int64_t deadline);
const char *clock_node(void);
uint64_t clock_node_hash(void);
void clock_distribute_offsets(void);
int64_t clock_to_common(int64_t ns);
int64_t clock_error_bound(void);
bool clock_is_stale(void);

/* ---- performance events of the kernel (perf_event.c) */

struct perf_event_attr;
const char *perf_event_obstacle(void);
int perf_event_create(struct perf_event_attr *event, int group);
const char *perf_event_failure(int error);

/* ---- link parameters from the times of messages of several sizes, or from a machine table
 * (alpha_beta_fit.c) */

enum { MOST_SIZES = 24 };

/* ns, ns per byte, bytes: t(m) = alpha + beta min(m, buffer) + pace max(m - buffer, 0) */
struct link {
    double alpha, beta, pace, buffer;
};

/* Return the time in ns of a byte of messages that follow each other. It exceeds beta if a port
 * sends its first bytes at once after an idle time. */
static inline double link_byte_ns(const struct link *l)
{
    return l->pace > l->beta ? l->pace : l->beta;
}

struct alpha_beta_fit { /* ns by size, sizes ascending */
    int count;
    const int *sizes;
    double one_way[MOST_SIZES], both_ways[MOST_SIZES];
};

void alpha_beta_fit_sort(struct alpha_beta_fit *l);
struct link alpha_beta_fit_link(const struct alpha_beta_fit *l);
struct link alpha_beta_fit_slowest_link(const char *table);

/* ---- statistics of repeated time measurements (repetitions.c) */

enum {
    MOST_ROUNDS = 64,
    LEAST_CLEAN = 4 /* clean repetitions, below which a time within a node is unknown */
};

/* The repetitions of one message size in order of time. `ns[1]` contains the clean ones, in which
 * the leader did not lose its core, and `ns[0]` the others. */
struct repetitions {
    int count[2];
    double ns[2][MOST_ROUNDS];
};

void repetition_add(struct repetitions *r, double ns, bool clean);
bool repetitions_suffice(const struct repetitions *r);
double repetition_time(const struct repetitions *r);
double repetition_spread(const struct repetitions *r);

/* ---- measurement of message times between two ranks (pingpong.c) */

struct pingpong {
    int count, sizes[MOST_SIZES];
    int64_t spent_ns[MOST_SIZES]; /* time of all repetitions */
    struct repetitions one_way[MOST_SIZES], both_ways[MOST_SIZES];
};

void pingpong_measure(struct pingpong *p, int rank, int leader, int peer, bool full, bool between);
void pingpong_write(struct text *out, const struct pingpong *p);
struct link pingpong_link(const struct pingpong *p);

/* ---- the library's transport between two ranks (transport.c) */

struct transport {
    int eager_limit; /* bytes */
    double copy;     /* ns per byte of an unexpected message */
    bool buffered;   /* an eager send ends before the message has left */
};

struct transport transport_measure(int rank, int leader, int peer, const struct link *link);
void transport_write(struct text *out, const struct transport *t);

/* ---- message times on this machine (machine.c) */

extern struct link machine_link;
void machine_link_set(const struct link *measured, bool on_one_node);
double machine_message_ns(const struct link *l, double bytes);
void machine_measure(struct text *out, bool full);
bool machine_can_reduce(void);
