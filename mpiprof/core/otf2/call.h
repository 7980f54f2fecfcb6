/* Calls and messages in the exchange between Python and OTF2's files. These lists define the C
 * structs, and Python's data types by reading_layout().
 *
 * A call on messages (KIND_MESSAGE_CALL) has in `request` the index of its first message and in
 * `start` their number. Its communicator and root, which is its peer, are given by attributes.
 *
 * Times are ticks of the file; `exit` is NEVER while a call is open. `region`, `site`,
 * `communicator` and `request` are numbers of the file, or UNKNOWN if there is none. `given` has a
 * bit for each attribute (enum attribute) that the file provides in addition to its records.
 * `recorded` is set if the file has a record of the collective besides its region.
 */
#pragma once
#include <stdint.h>

#define CALL_FIELDS(X)                                                                             \
    X(uint64_t, enter, "<u8")                                                                      \
    X(uint64_t, exit, "<u8")                                                                       \
    X(uint64_t, request, "<u8")                                                                    \
    X(uint64_t, sent, "<u8")                                                                       \
    X(uint64_t, received, "<u8")                                                                   \
    X(uint64_t, outside, "<u8")                                                                    \
    X(uint32_t, region, "<u4")                                                                     \
    X(uint32_t, site, "<u4")                                                                       \
    X(uint32_t, communicator, "<u4")                                                               \
    X(uint32_t, root, "<u4")                                                                       \
    X(uint32_t, sequence, "<u4")                                                                   \
    X(uint32_t, start, "<u4")                                                                      \
    X(uint16_t, given, "<u2")                                                                      \
    X(uint8_t, kind, "u1")                                                                         \
    X(uint8_t, operation, "u1")                                                                    \
    X(uint8_t, choice, "u1")                                                                       \
    X(uint8_t, recorded, "u1")                                                                     \
    X(uint16_t, spare, "<u2")

#define MEMBER(type, name, format) type name;
struct otf2_call {
    CALL_FIELDS(MEMBER)
};

_Static_assert(sizeof(struct otf2_call) == 80, "no padding");

/* A message of a call, from an event of the file. `posted` is the time at which it was posted, and
 * `region` and `site` are those of the call that posted it, if mpiprof wrote the file. */
#define MESSAGE_FIELDS(X)                                                                          \
    X(uint64_t, time, "<u8")                                                                       \
    X(uint64_t, request, "<u8")                                                                    \
    X(uint64_t, bytes, "<u8")                                                                      \
    X(uint64_t, posted, "<u8")                                                                     \
    X(uint32_t, communicator, "<u4")                                                               \
    X(uint32_t, peer, "<u4")                                                                       \
    X(uint32_t, tag, "<u4")                                                                        \
    X(uint32_t, number, "<u4")                                                                     \
    X(uint32_t, region, "<u4")                                                                     \
    X(uint32_t, site, "<u4")                                                                       \
    X(uint8_t, event, "u1")                                                                        \
    X(uint8_t, received, "u1")                                                                     \
    X(uint8_t, flags, "u1")                                                                        \
    X(uint8_t, given, "u1")                                                                        \
    X(uint32_t, spare_message, "<u4")

struct otf2_message {
    MESSAGE_FIELDS(MEMBER)
};
#undef MEMBER

_Static_assert(sizeof(struct otf2_message) == 64, "no padding");

/* Event of the file for a message. PLAIN: a parameter with attributes, for a message whose other
 * side is not in the file. */
enum message_event {
    EVENT_SEND,
    EVENT_ISEND,
    EVENT_ISEND_COMPLETE,
    EVENT_IRECV_REQUEST,
    EVENT_RECV,
    EVENT_IRECV,
    EVENT_TEST,
    EVENT_PLAIN,
    EVENTS
};

/* as in the records of a log (tracefile/event.h) */
enum { KIND_CALL = 1, KIND_START = 2, KIND_COMPLETION = 3, KIND_MESSAGE_CALL = 9 };

/* Attributes that mpiprof adds to an Enter. The file numbers them consecutively in this order. An
 * event of a message has these in the same order: number, tag, time when it was posted, flags,
 * communicator, peer, bytes sent, bytes received, and region and site of the call that posted it. */
enum attribute {
    ATTRIBUTE_SEQUENCE,
    ATTRIBUTE_START,
    ATTRIBUTE_OUTSIDE,
    ATTRIBUTE_CHOICE,
    ATTRIBUTE_COMMUNICATOR,
    ATTRIBUTE_ROOT,
    ATTRIBUTE_SENT,
    ATTRIBUTE_RECEIVED,
    ATTRIBUTE_REGION,
    ATTRIBUTE_SITE,
    ATTRIBUTES
};

/* Class of a region, assigned by Python. */
enum class {
    OTHER,      /* region of the program: the call site of calls inside it */
    IGNORED,    /* MPI function without relevance, such as MPI_Initialized */
    COLLECTIVE, /* blocking collective */
    STARTING,   /* nonblocking collective */
    RESTARTING, /* start of a persistent operation: MPI_Start */
    POINT_TO_POINT,
    COMPLETING, /* Wait and Test */
    ONE_SIDED,
    FILES,
    CLASSES,                /* number of classes with a time of their own */
    INITIALISING = CLASSES, /* MPI_Init: the run begins at its end */
    FINALISING              /* MPI_Finalize: the run ends at its begin */
};

#define NEVER UINT64_MAX
#define UNKNOWN UINT32_MAX
#define DOOR __attribute__((visibility("default")))
