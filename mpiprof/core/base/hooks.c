/* Callbacks from recording to the layers above it. */
#include "base/hooks.h"

struct hooks hooks;
