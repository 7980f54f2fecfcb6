/* The record of the log: this list is the C struct, and the head line of every log.
 *
 * Kinds: a call (open while exit_ns is 0), the start of a persistent operation, a completion by
 * Wait or Test, an extension of the record after it (`sequence` says of what, exit_ns is the
 * value), a line of the summary (enter_ns: total time, exit_ns: number of calls, sequence: the last one's),
 * and statistics of a call site (statistics.c).
 * `kind` is written last, so that a reader of a live or dead job never sees half a record.
 * A chunk's head holds what its thread has dropped, and its time in calls without a record, so far;
 * `check` is its sum (check.c) once nothing more is written to it, 0 before. In a live window it also
 * holds the kind of a call without a record that the thread is in: a rank that never comes back from
 * one is found by that (outside.h; 0: none); `signal` has ended the process (dying.c; 0: none); `task`
 * is the thread's number in the system, by which one that computes is told from one in MPI (0: it has
 * ended, or the window is no thread's own).
 */
#pragma once
#include <stdint.h>

#define RECORD_FIELDS(X)                                                                           \
    X(int64_t, enter_ns, "<i8")                                                                    \
    X(int64_t, exit_ns, "<i8")                                                                     \
    X(uint32_t, sequence, "<u4")                                                                   \
    X(uint32_t, shape, "<u4")                                                                      \
    X(uint32_t, outside_ns, "<u4")                                                                 \
    X(uint16_t, thread, "<u2")                                                                     \
    X(uint8_t, kind, "u1")                                                                         \
    X(uint8_t, choice, "u1")

#define CHUNK_FIELDS(X)                                                                            \
    X(uint32_t, magic, "<u4")                                                                      \
    X(uint32_t, rank, "<u4")                                                                       \
    X(uint16_t, thread, "<u2")                                                                     \
    X(uint16_t, window, "<u2")                                                                     \
    X(uint32_t, check, "<u4")                                                                      \
    X(uint32_t, serial, "<u4")                                                                     \
    X(uint16_t, inside, "<u2")                                                                     \
    X(uint16_t, signal, "<u2")                                                                     \
    X(uint32_t, dropped, "<u4")                                                                    \
    X(uint32_t, task, "<u4")                                                                       \
    X(int64_t, point_to_point_ns, "<i8")                                                           \
    X(int64_t, completion_ns, "<i8")                                                               \
    X(int64_t, one_sided_ns, "<i8")                                                                \
    X(int64_t, files_ns, "<i8")

#define KINDS(X) X(empty) X(call) X(start) X(completion) X(extension) X(summary) X(statistics)

#define MEMBER(type, name, format) type name;
struct record {
    RECORD_FIELDS(MEMBER)
};
struct chunk_head {
    CHUNK_FIELDS(MEMBER)
};
#undef MEMBER

#define KIND(name) KIND_##name,
enum kind { KINDS(KIND) };
#undef KIND

enum extension {
    EXT_OUTSIDE = 1,
    EXT_START, /* the n-th start of a persistent operation, or communicator of its kin (comm.c) */
    EXT_SENT,
    EXT_RECEIVED,
    EXT_LONGEST, /* enter_ns: when the last call ended */
    EXT_AVERAGE, /* these follow their `statistics`, in this order */
    EXT_WORST,
    EXT_WAIT,
    EXT_SCORE,
    EXT_BALANCED,
    EXT_WORST_MOST,
    EXT_LATEST, /* enter_ns: the rank */
    EXT_END
};

enum { CHUNK_BYTES = 65536, CHUNK_HEAD = 64, CHUNK_RECORDS = (CHUNK_BYTES - CHUNK_HEAD) / 32 };
#define CHUNK_MAGIC 0x6863504Du

struct chunk {
    struct chunk_head head;
    struct record records[CHUNK_RECORDS];
};

_Static_assert(sizeof(struct chunk_head) == CHUNK_HEAD, "the head is full");
_Static_assert(sizeof(struct record) == 32, "a record is 32 bytes");
_Static_assert(sizeof(struct chunk) == CHUNK_BYTES, "a chunk is 64 KiB");
