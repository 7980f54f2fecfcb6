/* Per-thread state of the recorder. */
#include "record/thread.h"

_Thread_local struct thread self;
