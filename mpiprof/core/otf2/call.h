/* A call as it passes between Python and OTF2's files: this list is the C struct and, by
 * reading_layout(), Python's.
 *
 * Times are the file's ticks; `exit` is NEVER while a call is open. `region`, `site`,
 * `communicator` and `request` are the file's numbers, UNKNOWN where there is none. `given` says
 * which of the file's attributes tell what its records do not (a bit for each of enum attribute);
 * `recorded`, that there was a record of the collective beside its region.
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
struct call {
    CALL_FIELDS(MEMBER)
};
#undef MEMBER

_Static_assert(sizeof(struct call) == 80, "no padding");

/* As the records of a log (trace/event.h). */
enum { KIND_CALL = 1, KIND_START = 2, KIND_COMPLETION = 3 };

/* Our attributes of an Enter; the file numbers them in this order from the first one on. */
enum attribute {
    ATTRIBUTE_SEQUENCE,
    ATTRIBUTE_START,
    ATTRIBUTE_OUTSIDE,
    ATTRIBUTE_CHOICE,
    ATTRIBUTE_COMMUNICATOR,
    ATTRIBUTE_ROOT,
    ATTRIBUTE_SENT,
    ATTRIBUTE_RECEIVED,
    ATTRIBUTES
};

/* What a region is to us; given by Python for each. */
enum class {
    OTHER,      /* of the program: a call site for what is called in it */
    IGNORED,    /* of MPI, and nothing to us: MPI_Init */
    COLLECTIVE, /* blocking */
    STARTING,   /* a nonblocking one */
    RESTARTING, /* a persistent one: MPI_Start */
    POINT_TO_POINT,
    COMPLETING, /* Wait and Test */
    ONE_SIDED,
    FILES,
    CLASSES
};

#define NEVER UINT64_MAX
#define UNKNOWN UINT32_MAX
#define DOOR __attribute__((visibility("default")))
