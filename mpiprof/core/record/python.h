/* Call sites of Python programs: python.c. */
#pragma once
#include <stdbool.h>

#include "record/python_api.h"
#include "record/site.h"

struct site *python_site(void);              /* NULL: not from Python, or not to be asked now */
bool python_is_up(void);                     /* it may be asked for what needs no lock */
struct site *python_site_of(object *thread); /* under the lock */
/* Whether Python has ended and the address is in its library or in mpi4py's module. */
bool python_exit_address(const void *address);
void python_start(void);
bool python_at_exit(void (*stop)(void));
void python_forget_preload(const char *value);
