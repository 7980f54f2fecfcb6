/* What windows have told of a key: observe.c. */
#pragma once
#include "auto/selection.h"

void observe_window(struct selection *s);
