/* Lookup of the routines of the MPI library.
 *
 * mpi4py's wheels load libmpi with RTLD_LOCAL, so a direct reference to PMPI_* would stay NULL in a
 * preloaded library. So every entry is found by dlsym. RTLD_NEXT is tried first, so that a tool
 * that is preloaded after this library is called. The library that is already loaded is second.
 *
 * Threads: any. Finding the same pointer twice does no harm.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#include "base/symbol_lookup.h"

native_function *_Atomic symbol_lookup_table[NATIVE_COUNT];

/* No pointers, because relocations would make these pages private to each process. */
static const char native_names[][NATIVE_NAME_BYTES] = {NATIVE_NAMES};

static void *library_handle(void)
{
    static void *_Atomic found;
    static const char *const names[] = {
#if defined(MPIPROF_ABI_mpich)
        "libmpi.so.12",
        "libmpich.so.12",
        "libmpi_cray.so.12",
#elif defined(MPIPROF_ABI_openmpi)
        "libmpi.so.40",
#else
        "libmpi_abi.so.1",
        "libmpi_abi.so.0",
#endif
    };
    void *handle = atomic_load(&found);

    for (size_t i = 0; handle == NULL && i < sizeof names / sizeof *names; i++)
        handle = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
    atomic_store(&found, handle);
    return handle;
}

/* Return a symbol of the library, or of a tool that is preloaded after this library. */
void *symbol_lookup_address(const char *name)
{
    void *const loaded = library_handle();
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL && loaded != NULL)
        found = dlsym(loaded, name);
    return found;
}

/* Return true if the program defines a routine itself, as with a profiler linked into it. */
bool symbol_lookup_is_foreign(const char *name)
{
    const void *const first = dlsym(RTLD_DEFAULT, name);
    Dl_info here, there;
    const ElfW(Sym) *symbol = NULL;
    /* its symbol version differs between glibc releases */
    int (*about)(const void *, Dl_info *, void **, int);

    *(void **)&about = dlsym(RTLD_DEFAULT, "dladdr1");
    /* an undefined symbol is the program's reference to the wrapper */
    return first != NULL && about != NULL && dladdr((const void *)native_names, &here) != 0 &&
           about(first, &there, (void **)&symbol, RTLD_DL_SYMENT) != 0 &&
           there.dli_fbase != here.dli_fbase && symbol != NULL && symbol->st_shndx != SHN_UNDEF;
}

/* Return the name of a routine that frees communicators and that the program defines itself, or
 * NULL. Such a routine frees by PMPI, unseen by the recorder. The library may reuse the handle, and
 * the recorder would mistake the next communicator for the freed one. */
const char *symbol_lookup_other_tool(void)
{
    return symbol_lookup_is_foreign("MPI_Comm_free")         ? "MPI_Comm_free"
           : symbol_lookup_is_foreign("MPI_Comm_disconnect") ? "MPI_Comm_disconnect"
                                                             : NULL;
}

/* Return the file of a tool that is preloaded after this library and defines a routine, or NULL. A
 * tool defines only MPI_X, and the MPI library also PMPI_X. */
const char *symbol_lookup_tool_below(const char *name)
{
    char profiling[80];
    Dl_info tool, library;

    snprintf(profiling, sizeof profiling, "P%s", name);
    const void *const next = dlsym(RTLD_NEXT, name), *const last = symbol_lookup_address(profiling);

    if (next == NULL || last == NULL || dladdr(next, &tool) == 0 || dladdr(last, &library) == 0)
        return NULL;
    return tool.dli_fbase != library.dli_fbase ? tool.dli_fname : NULL;
}

native_function *symbol_lookup_find(enum native id)
{
    const char *const name = native_names[id];
    char profiling[80];
    /* ISO C has no cast from object to function pointer, which POSIX's dlsym requires. */
    union {
        void *object;
        native_function *function;
    } found = {.object = symbol_lookup_address(name)};

    if (found.object == NULL) {
        snprintf(profiling, sizeof profiling, "%c%s", name[0] == 'm' ? 'p' : 'P', name);
        found.object = symbol_lookup_address(profiling);
    }
    atomic_store(&symbol_lookup_table[id], found.function);
    return found.function;
}
