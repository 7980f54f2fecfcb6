/* State of the reading of one OTF2 location: its functions (reading_state.c), the conversion of
 * messages (reading_messages.c) and of collectives (reading.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "otf2/call.h"

enum { SUCCESS = 0, FAILED = 1 };

struct otf2_frame {
    uint64_t enter;
    size_t first; /* first call that was recorded while this was the innermost region */
    size_t first_message;
    size_t site; /* stack position + 1 of the innermost program region around it; 0 for none */
    uint32_t region;
    uint32_t context; /* UNKNOWN without a calling context */
    uint8_t class;
    struct otf2_call call; /* as far as attributes describe it */
};

struct facts { /* in the order of FACT_NAMES (formats/otf2/library.py) */
    uint64_t first_time, last_time, events, unknown;
    uint64_t began, ended; /* 1 after the event ProgramBegin or ProgramEnd */
    uint64_t program;      /* number of the program's name; UNKNOWN before ProgramBegin */
    uint64_t initialised;  /* end of the first MPI_Init, or NEVER */
    uint64_t finalising;   /* begin of the last MPI_Finalize, or NEVER */
    uint64_t spent[CLASSES - POINT_TO_POINT]; /* ticks by class */
};

struct reading {
    struct otf2_call *calls;
    size_t count, room;
    struct otf2_call *message_calls;
    size_t message_call_count, message_call_room;
    struct otf2_message *messages;
    size_t message_count, message_room;
    struct otf2_frame *stack;
    size_t depth, deep;
    const uint8_t *classes;
    const uint32_t *regions; /* of calling contexts */
    uint32_t class_count, context_count;
    uint32_t first_attribute; /* UNKNOWN if the file has no attributes of mpiprof */
    uint64_t outside;
    struct facts facts;
    bool failed;
    uint32_t (*attribute_count)(const void *list);
    int (*attribute)(const void *list, uint32_t i, uint32_t *which, uint8_t *type, uint64_t *value);
};

#define UNUSED __attribute__((unused))
#define EVENT                                                                                      \
    UNUSED uint64_t location, uint64_t time, UNUSED uint64_t position, void *user,                 \
        UNUSED const void *attributes

bool reading_state_grow(struct reading *r, void **array, size_t used, size_t *room, size_t size);
void reading_state_count(struct reading *r, uint64_t time);
void reading_state_describe(const struct reading *r, const struct otf2_frame *f,
                            struct otf2_call *c);
void reading_state_attributes(struct reading *r, const void *list, struct otf2_call *c);
const struct otf2_frame *reading_state_innermost(const struct reading *r);
void reading_messages_end(struct reading *r, const struct otf2_frame *f, uint64_t exit,
                          bool has_collective);
