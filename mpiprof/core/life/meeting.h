/* How all members of a communicator hear of each other: meeting.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/common.h"
#include "base/native.h"

enum {
    RECORDING = 1, /* there is a folder */
    BEGUN = 2,     /* some have begun before */
    NODES = 4,     /* there are several */
    TAKEN = 8      /* another program of this job has its trace in the folder */
};
struct verdict {
    int64_t together; /* all have answered: they may communicate */
    int64_t state;    /* of those above */
    int64_t agreed;   /* all were given the same rules for switching */
    uint64_t job;
    char folder[PATH_BYTES];
};

bool meeting_hold(MPI_Comm comm, bool several, bool heads, bool begun, struct verdict *v);
bool meeting_harms(void);
void meeting_say_harmed(int64_t harmed, int64_t ranks);
void meeting_end(void);
