/* What the recorder keeps of each thread. */
#include "record/thread.h"

_Thread_local struct thread self;
