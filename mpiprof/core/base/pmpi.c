/* PMPI routines that the recorder calls, and the predefined handles. They are looked up once, when
 * MPI starts. */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>

#include "base/mpi_types.h"
#include "base/pmpi.h"

struct pmpi pmpi;

#ifdef PREDEFINED_HANDLES
struct predefined predefined;

/* Look up data with RTLD_DEFAULT first, because the program may contain the valid copy (copy
 * relocation). */
static void *data_symbol(const char *name)
{
    void *const address = dlsym(RTLD_DEFAULT, name);

    return address != NULL ? address : symbol_lookup_address(name);
}

static bool handles_load(void)
{
    bool complete = true;

#define FIND(name) complete &= (predefined.mpi_##name = data_symbol("ompi_mpi_" #name)) != NULL;
    PREDEFINED_HANDLES(FIND)
#undef FIND
    predefined.request_null = data_symbol("ompi_request_null");
    return complete && predefined.request_null != NULL;
}

/* Find the addresses of a Fortran constant. Only these constants must be recognised; all others
 * (error codes, weights, arguments of spawned programs) are passed on unchanged.
 * MPICH's Fortran layers pass C's constants to the C functions that are wrapped. */
static void find_spellings(const char *constant, void *found[4])
{
    static const char *const spellings[] = {"mpi_fortran_%s_", "mpi_fortran_%s", "mpi_fortran_%s__",
                                            "MPI_FORTRAN_%s"};
    char name[40];

    for (int i = 0; i < 4; i++) {
        const int stem = snprintf(name, sizeof name, spellings[i], constant);

        for (int j = 0; i == 3 && j < stem; j++)
            name[j] = (char)toupper((unsigned char)name[j]);
        found[i] = data_symbol(name);
    }
}
#endif

#ifdef MPIPROF_ABI_mpich
/* Return the address that a global pointer of MPICH's C library contains, or NULL. */
static void *pointer_symbol(const char *name)
{
    void *const *const address = symbol_lookup_address(name);

    return address != NULL ? *address : NULL;
}
#endif

bool pmpi_find_functions(void)
{
    bool complete = true;

    pmpi.can_switch = pmpi.has_variables = true;
#define FIND(name, unused) (*(void **)&pmpi.name = symbol_lookup_address("PMPI_" #name))
#define FIND_REQUIRED(name, unused) complete &= FIND(name, unused) != NULL;
#define FIND_OPTIONAL(name, unused) FIND(name, unused);
#define FIND_VARIABLES(name, unused) pmpi.has_variables &= FIND(name, unused) != NULL;
#define FIND_SWITCHING(name, unused) pmpi.can_switch &= FIND(name, unused) != NULL;
    PMPI_REQUIRED(FIND_REQUIRED)
    PMPI_OPTIONAL(FIND_OPTIONAL)
    PMPI_SWITCHING(FIND_SWITCHING)
    PMPI_VARIABLES(FIND_VARIABLES)
    PMPI_FORTRAN(FIND_OPTIONAL)
    FIND_OPTIONAL(Comm_c2f, )
#ifdef PREDEFINED_HANDLES
    complete &= handles_load();
    find_spellings("in_place", pmpi.fortran_in_place);
    find_spellings("bottom", pmpi.fortran_bottom);
    find_spellings("status_ignore", pmpi.fortran_status_ignore);
    find_spellings("statuses_ignore", pmpi.fortran_statuses_ignore);
    predefined_find_handles(data_symbol);
#else
    predefined_find_handles(NULL);
#endif
#ifdef MPIPROF_ABI_mpich
    pmpi.fortran_status_ignore[0] = pointer_symbol("MPI_F08_STATUS_IGNORE");
    pmpi.fortran_statuses_ignore[0] = pointer_symbol("MPI_F08_STATUSES_IGNORE");
#endif
    return complete;
}

/* Return true if the program requested to survive failed processes (ULFM). MPICH's ch4 has no such
 * mode. */
bool pmpi_survives_failures(void)
{
#ifdef MPIPROF_ABI_openmpi
    int *on = NULL, there = 0, initialised = 0;

    pmpi.Initialized(&initialised); /* under Sessions there is no communicator to query */
    return initialised && symbol_lookup_address("PMPIX_Comm_revoke") != NULL &&
           pmpi.Comm_get_attr(MPI_COMM_WORLD, MPI_FT, &on, &there) == MPI_SUCCESS && there && *on;
#else
    return false;
#endif
}
