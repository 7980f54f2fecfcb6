/* MPI_T access to the library's control variables: find, read and write.
 *
 * MPI_T may be initialised at any time, but with side effects. Open MPI sets the program's thread
 * level to the level of MPI_T_init_thread, so the current level is passed. MPICH discards its
 * variables at the last MPI_T_finalize, although the library is still in use (4.0 does not find
 * them again). So MPI_T is finalised only with the library.
 *
 * Threads: started in MPI_Init and ended in MPI_Finalize. One thread at a time uses it.
 */
#include "base/mpi_t.h"

#include <string.h>

#include "base/mpi_types.h"
#include "base/pmpi.h"

static bool begun;

static int level_wanted(void)
{
    int level = MPI_THREAD_MULTIPLE;

#ifdef MPIPROF_ABI_openmpi
    if (pmpi.Query_thread != NULL)
        pmpi.Query_thread(&level);
#endif
    return level;
}

/* Initialise MPI_T. Returns false if the library has none. A second call has no effect. */
bool mpi_t_begin(void)
{
    int provided;

    if (!begun)
        begun = pmpi.has_variables && pmpi.T_init_thread(level_wanted(), &provided) == MPI_SUCCESS;
    return begun;
}

void mpi_t_end(void)
{
    if (begun)
        pmpi.T_finalize();
    begun = false;
}

int mpi_t_count(void)
{
    int count = 0;

    pmpi.T_cvar_get_num(&count);
    return count;
}

bool mpi_t_name(int index, char *name, int room, MPI_Datatype *type)
{
    char description[2] = "";
    int length = room, description_length = sizeof description, verbosity, bind, scope;
    void *values = NULL;

    *type = MPI_DATATYPE_NULL;
    name[0] = '\0';
    return pmpi.T_cvar_get_info(index, name, &length, &verbosity, type, &values, description,
                                &description_length, &bind, &scope) == MPI_SUCCESS;
}

static const char *type_name_of(MPI_Datatype type)
{
    const struct predefined_type *const known = predefined_type(type);

    return known != NULL ? known->name : "";
}

/* Read a text variable. Returns false for other types or if it is too long. */
bool mpi_t_text(int index, char *text, int room)
{
    char name[2];
    MPI_Datatype type;
    void *handle = NULL;
    int count = 0;

    if (!mpi_t_name(index, name, sizeof name, &type) ||
        strcmp(type_name_of(type), "MPI_CHAR") != 0 ||
        pmpi.T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return false;
    const bool found = count > 0 && count < room && pmpi.T_cvar_read(handle, text) == MPI_SUCCESS;

    pmpi.T_cvar_handle_free(&handle);
    return found;
}

/* Open a variable with one number or Boolean. Returns false for others. */
bool mpi_t_open_at(struct tool_variable *v, int index, MPI_Datatype type)
{
    const char *const kind = type_name_of(type);
    int count = 0;

    *v = (struct tool_variable){.flag = strcmp(kind, "MPI_C_BOOL") == 0};
    if ((!v->flag && strcmp(kind, "MPI_INT") != 0 && strcmp(kind, "MPI_UNSIGNED") != 0) ||
        pmpi.T_cvar_handle_alloc(index, NULL, &v->handle, &count) != MPI_SUCCESS)
        return false;
    if (count != 1)
        mpi_t_close(v);
    return count == 1;
}

bool mpi_t_open(struct tool_variable *v, const char *name)
{
    char found[2];
    MPI_Datatype type;
    int index;

    *v = (struct tool_variable){0};
    return pmpi.T_cvar_get_index(name, &index) == MPI_SUCCESS &&
           mpi_t_name(index, found, sizeof found, &type) && mpi_t_open_at(v, index, type);
}

bool mpi_t_read(const struct tool_variable *v, int *value)
{
    unsigned char flag = 0;
    const int error = pmpi.T_cvar_read(v->handle, v->flag ? (void *)&flag : (void *)value);

    if (v->flag)
        *value = flag;
    return error == MPI_SUCCESS;
}

bool mpi_t_write(const struct tool_variable *v, int value)
{
    const unsigned char flag = value != 0;

    return pmpi.T_cvar_write(v->handle, v->flag ? (const void *)&flag : (const void *)&value) ==
           MPI_SUCCESS;
}

void mpi_t_close(struct tool_variable *v)
{
    if (v->handle != NULL)
        pmpi.T_cvar_handle_free(&v->handle);
    v->handle = NULL;
}
