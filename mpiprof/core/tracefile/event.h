/* Format of a log record. These lists define the C structs and the header line of every log.
 *
 * A record is one of these:
 *
 *   call          open while exit_ns is 0
 *   start         start of a persistent operation
 *   completion    by Wait or Test
 *   extension     of the next record: sequence is the enum extension, exit_ns the value
 *   summary       enter_ns: total time, exit_ns: number of calls, sequence: that of the last call
 *   statistics    of a call site (statistics.c)
 *
 * or, in a chunk of messages (record/message_log.c):
 *
 *   sent, received  part of the next message_call: enter_ns is the time when the message was posted,
 *                 exit_ns its bytes, sequence its number, outside_ns its tag, choice its flags
 *   message_call  open while exit_ns is 0; sequence is the number of its parts
 *   local_call    of one rank on a window, file, communicator etc.; open while exit_ns is 0; sequence
 *                 is the number of a post or start on its window, choice the enum lock_type
 *   poll          calls of one thread that found nothing, from the first one to the call that found
 *                 something, with their pauses (record/poll.c); sequence is their number
 *   interval      between two calls; sequence is the shape of the call before it, shape that of the
 *                 call after it (UINT32_MAX: unknown), outside_ns the time before enter_ns that its
 *                 counters include
 *   interval_times, interval_counts  counters of the next interval (record/interval.c); choice of
 *                 interval_times is 1 if the processor time of other threads is known
 *   interval_threads  before interval_times, if other threads of the process ran: enter_ns is their
 *                 processor time
 *   interval_pressure  of the node, until the next interval's end (record/node_pressure.c)
 *   summary       of the calls of a shape, as above
 *   message_count of the messages with one peer in one class of tags (message_number.c), updated in
 *                 place: sequence is the number of those sent, shape and outside_ns belong to the
 *                 last one (the tag is in outside_ns), exit_ns is the number of those received,
 *                 enter_ns belongs to the last one (tag << 32 | shape), choice is the class. With
 *                 choice COUNTS_END the process counts no further messages.
 *
 * `kind` is written last, so that a reader of a running or dead job never reads half a record.
 * Fields of a chunk's header:
 *
 *   dropped, *_ns  calls dropped by its thread so far, and time in calls without a record
 *   content        1 in chunks of messages, 2 in chunks of packed messages (message_pack.h), else 0
 *   check          checksum once nothing more is written to the chunk (checksum.c); 0 before
 *   function       in a live window: 1 + operation (an index into the first line's `operations`) of
 *                  the call that the thread is in, or 0 if it is outside MPI or in a call with an open
 *                  record; shows a rank that never returns from such a call (record.h)
 *   since_ns       begin of that call; 0 before it is known
 *   packed         in chunks of packed messages: bytes of the records, and number of the windows
 *                  that they filled << 32; written last
 *   first_window   serial of the first of these windows
 *   polling        in a live window: 1 in a call of a poll, 2 between two calls of it; then function is
 *                  that of the poll, and since_ns its begin
 *   polled_ns      a time at which the last call of the poll had returned; at most 1 ms before its end
 *   signal         the signal that ended the process, or 0, and its sender << 8 (fatal_signals.c)
 *   task           the thread's system id, which shows whether the thread computes or is in MPI;
 *                  0 if the thread has ended or the window belongs to no thread
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
    X(uint8_t, window, "u1")                                                                       \
    X(uint8_t, content, "u1")                                                                      \
    X(uint32_t, check, "<u4")                                                                      \
    X(uint32_t, serial, "<u4")                                                                     \
    X(uint16_t, function, "<u2")                                                                   \
    X(uint16_t, signal, "<u2")                                                                     \
    X(uint32_t, dropped, "<u4")                                                                    \
    X(uint32_t, task, "<u4")                                                                       \
    X(int64_t, point_to_point_ns, "<i8")                                                           \
    X(int64_t, completion_ns, "<i8")                                                               \
    X(int64_t, one_sided_ns, "<i8")                                                                \
    X(int64_t, files_ns, "<i8")                                                                    \
    X(int64_t, since_ns, "<i8")                                                                    \
    X(int64_t, packed, "<i8")                                                                      \
    X(uint32_t, first_window, "<u4")                                                               \
    X(uint32_t, polling, "<u4")                                                                    \
    X(int64_t, polled_ns, "<i8")

#define KINDS(X)                                                                                   \
    X(empty)                                                                                       \
    X(call)                                                                                        \
    X(start)                                                                                       \
    X(completion)                                                                                  \
    X(extension)                                                                                   \
    X(summary)                                                                                     \
    X(statistics)                                                                                  \
    X(sent)                                                                                        \
    X(received)                                                                                    \
    X(message_call)                                                                                \
    X(message_count)                                                                               \
    X(interval)                                                                                    \
    X(interval_times)                                                                              \
    X(interval_counts)                                                                             \
    X(interval_pressure)                                                                           \
    X(local_call)                                                                                  \
    X(interval_threads)                                                                            \
    X(poll)

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
    EXT_START, /* number of a persistent start, or of an equivalent communicator (comm_id.c) */
    EXT_SENT,
    EXT_RECEIVED,
    EXT_LONGEST, /* enter_ns: end of the last call */
    EXT_AVERAGE, /* from here on: extensions of `statistics`, in this order */
    EXT_WORST,
    EXT_WAIT,
    EXT_SCORE,
    EXT_BALANCED,
    EXT_WORST_MOST,
    EXT_LATEST, /* enter_ns: the rank */
    EXT_END
};

enum { CHUNK_BYTES = 65536, CHUNK_HEAD = 96, CHUNK_RECORDS = (CHUNK_BYTES - CHUNK_HEAD) / 32 };
#define CHUNK_MAGIC 0x6863504Du

/* Flags of a message in a call. */
enum {
    PART_UNSURE = 1,      /* the number may be that of another message */
    PART_WILDCARD = 2,    /* posted for any source or any tag */
    PART_COMPLETE = 4,    /* complete when the call returned */
    PART_UNKNOWN = 8,     /* peer or tag are unknown, because the program ignored the status */
    PART_CANCELLED = 16,  /* the program has requested to cancel it */
    PART_IN_ORDER = 64,   /* the number counts all messages of the peer, with whatever tag */
    PART_ANY_SOURCE = 128 /* posted for any source */
};

enum content { CONTENT_CALLS, CONTENT_MESSAGES, CONTENT_PACKED };

/* Messages are counted by tag modulo TAG_CLASSES. */
enum { TAG_CLASSES = 16, COUNTS_END = TAG_CLASSES };

/* The sender of a fatal signal. From SENDER_PARENT on, each higher value is one more generation of
 * ancestors. */
enum { SENDER_UNKNOWN, SENDER_ITSELF, SENDER_PARENT, SENDER_ELSEWHERE = 255 };

struct chunk {
    struct chunk_head head;
    struct record records[CHUNK_RECORDS];
};

_Static_assert(sizeof(struct chunk_head) == CHUNK_HEAD, "the head is full");
_Static_assert(sizeof(struct record) == 32, "a record is 32 bytes");
_Static_assert(sizeof(struct chunk) == CHUNK_BYTES, "a chunk is 64 KiB");
