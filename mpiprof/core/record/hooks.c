/* Callbacks from recording to the layers above it. */
#include "record/hooks.h"

struct hooks hooks;
