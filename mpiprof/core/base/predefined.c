/* Predefined datatypes and reductions, recognised by their handles. A handle that may be garbage is
 * only compared, never passed to the library. Filled once, when MPI starts. */
#include "base/mpi_types.h"

enum { SLOTS = 256 };
struct slot {
    uintptr_t handle; /* 0 for a free slot */
    struct predefined_type type;
};
static struct slot types[SLOTS], reductions[SLOTS];

static struct slot *slot_for(struct slot *table, uintptr_t handle)
{
    size_t i = (size_t)((uint64_t)handle * 0x9E3779B97F4A7C15u >> 56);

    while (table[i].handle != 0 && table[i].handle != handle)
        i = (i + 1) % SLOTS;
    return &table[i];
}

static void table_add(struct slot *table, uintptr_t handle, const char *name, int64_t size)
{
    struct slot *const s = slot_for(table, handle);

    if (handle == 0 || s->handle == handle)
        return;
    s->type.name = name;
    atomic_store(&s->type.size, size);
    s->handle = handle;
}

#ifdef PREDEFINED_HANDLES
#define HANDLE(type, value) (uintptr_t)symbol(value)
#else
#define HANDLE(type, value) (uintptr_t)(type)(value)
#endif

/* Fill the tables. If handles are addresses, `symbol` finds the library's data. */
void predefined_find_handles(void *(*symbol)(const char *name))
{
    (void)symbol;
#define TYPE(name, value, size) table_add(types, HANDLE(MPI_Datatype, value), name, size);
    PREDEFINED_TYPES(TYPE)
#undef TYPE
#define REDUCTION(name, value, size) table_add(reductions, HANDLE(MPI_Op, value), name, size);
    PREDEFINED_REDUCTIONS(REDUCTION)
#undef REDUCTION
}

/* Return the predefined type, or NULL if the handle is none. */
struct predefined_type *predefined_type(MPI_Datatype type)
{
    struct slot *const s = slot_for(types, (uintptr_t)type);

    return s->handle != 0 ? &s->type : NULL;
}

/* Return the size of a predefined type, or -1 if it is unknown or the type is none of these. */
int64_t predefined_bytes(MPI_Datatype type)
{
    struct predefined_type *const known = predefined_type(type);

    return known != NULL ? atomic_load_explicit(&known->size, memory_order_relaxed) : -1;
}

/* Return the name of a predefined reduction, which is commutative and may be associated freely, or
 * NULL for any other reduction (operator.c). */
const char *predefined_reduction(MPI_Op op)
{
    const struct slot *const s = slot_for(reductions, (uintptr_t)op);

    return s->handle != 0 ? s->type.name : NULL;
}
