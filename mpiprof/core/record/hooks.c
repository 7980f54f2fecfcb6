/* What the recording tells the layers above it. */
#include "record/hooks.h"

struct hooks hooks;
