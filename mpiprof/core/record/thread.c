/* Per-thread state of the recorder. */
#include "record/record.h"

_Thread_local struct thread self;
