/* Routines of the MPI library, or of a tool that is preloaded after this library
 * (symbol_lookup.c). */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "abi.h"
#include "natives.h"

#define COMM_NONE MPI_COMM_NULL
#define WIN_NONE ((MPI_Win)0)
#define FH_NONE ((MPI_File)0)

enum { ROOT_NONE = -1000 };

typedef void native_function(void);
extern native_function *_Atomic symbol_lookup_table[NATIVE_COUNT];
native_function *symbol_lookup_find(enum native id);
bool symbol_lookup_is_foreign(const char *name);
const char *symbol_lookup_other_tool(void);
const char *symbol_lookup_tool_below(const char *name);
void *symbol_lookup_address(const char *name);

static inline native_function *symbol_lookup_get(enum native id)
{
    native_function *const known =
        atomic_load_explicit(&symbol_lookup_table[id], memory_order_relaxed);
    return known != NULL ? known : symbol_lookup_find(id);
}
