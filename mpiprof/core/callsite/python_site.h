/* Call sites of Python programs (python_site.c). */
#pragma once
#include <stdbool.h>

#include "callsite/cpython_api.h"
#include "callsite/site.h"

struct site *python_site(void);              /* NULL if no Python frame is readable now */
bool python_site_is_up(void);                /* calls that need no GIL are safe */
struct site *python_site_of(object *thread); /* requires the GIL */
/* Return true if Python has ended and the address is in its library or in mpi4py's module. */
bool python_site_exit_address(const void *address);
void python_site_start(void);
bool python_site_at_exit(void (*stop)(void));
void python_site_forget_preload(const char *value);
