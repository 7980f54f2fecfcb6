/* Packing and unpacking of the blocks of the user's send or receive buffer. */
#include <limits.h>

#include "base/mpi_types.h"
#include "base/pmpi.h"
#include "executor/execution.h"

static int64_t count_of(const struct arguments *a, const struct blocks *b, int i)
{
    return argument_has_counts(b->side) ? argument_count(a, b->side->counts, (size_t)i)
                                        : argument_count(a, b->side->count, 0);
}

static struct block_place place_of(const struct arguments *a, const struct blocks *b, int i,
                                   MPI_Datatype type, int64_t extent)
{
    const int64_t count = count_of(a, b, i);
    const int64_t elements = argument_has_counts(b->side)
                                 ? argument_displacement(a, b->side->displs, (size_t)i)
                                 : i * count;

    return (struct block_place){b->base + elements * extent, count, type};
}

struct block_place block_layout_place(const struct arguments *a, const struct blocks *b, int i)
{
    const MPI_Datatype type = argument_type(a, b->side->type, 0);

    return place_of(a, b, i, type, type_properties(type).extent);
}

/* Return true if the user's buffer already has the schedule's layout. */
bool block_layout_is_direct(const struct execution *e, const struct blocks *b)
{
    const struct arguments *const a = e->arguments;
    const struct type_properties f = type_properties(argument_type(a, b->side->type, 0));
    int64_t next = 0;

    if (!f.named || f.size != f.extent || f.lower != 0 || b->device)
        return false;
    for (int i = 0; argument_has_counts(b->side) && i < b->count; i++) {
        const int64_t count = count_of(a, b, i);

        if (count > 0 && argument_displacement(a, b->side->displs, (size_t)i) != next)
            return false;
        next += count;
    }
    return true;
}

/* Pack or unpack elements. A message to this rank replaces MPI_Pack in three cases: MPI_BOTTOM,
 * which older MPICH releases reject, device memory, and incomplete elements. */
static void elements_copy(struct execution *e, const struct block_place *at, char *packed,
                          int bytes, bool pack, bool as_message)
{
    const struct block_place whole = {packed, bytes, MPI_BYTE};
    const int count = (int)at->count;
    int position = 0;

    if (at->at == NULL || as_message)
        execution_self_send(e, pack ? at : &whole, pack ? &whole : at);
    else if (pack)
        execution_note_error(
            e, pmpi.Pack(at->at, count, at->type, packed, bytes, &position, e->route.comm));
    else
        execution_note_error(
            e, pmpi.Unpack(packed, bytes, &position, at->at, count, at->type, e->route.comm));
}

/* Return the number of bytes received of a packed block. */
static int64_t received_bytes(const struct execution *e, const char *packed, int64_t bytes)
{
    for (const struct missing_tail *l = e->staging.missing; l != NULL; l = l->next)
        if (l->at >= packed && l->at < packed + bytes)
            return l->at - packed;
    return bytes;
}

/* Pack or unpack block i, in parts because PMPI_Pack counts in int. Returns its bytes. */
int64_t block_layout_move_one(struct execution *e, const struct blocks *b, int i, char *packed,
                              bool pack)
{
    const MPI_Datatype type = argument_type(e->arguments, b->side->type, 0);
    const struct type_properties f = type_properties(type);
    struct block_place at = place_of(e->arguments, b, i, type, f.extent);
    const int64_t most = f.size > 0 ? INT_MAX / 2 / f.size + 1 : 0;
    const int64_t count = at.count;
    int64_t left = pack ? count * f.size : received_bytes(e, packed, count * f.size);

    for (int64_t done = 0; left > 0; done += at.count) {
        at.count = count - done < most ? count - done : most;
        const bool whole = at.count * f.size <= left;
        const int bytes = (int)(whole ? at.count * f.size : left);

        elements_copy(e, &at, packed, bytes, pack, b->device || !whole);
        packed += bytes;
        left -= bytes;
        at.at += at.count * f.extent;
    }
    return count * f.size;
}

void block_layout_move(struct execution *e, const struct blocks *b, char *packed, bool pack)
{
    for (int i = 0; i < b->count; i++)
        packed += block_layout_move_one(e, b, i, packed, pack);
}

int64_t block_layout_packed_bytes(const struct execution *e, const struct blocks *b)
{
    const struct type_properties f = type_properties(argument_type(e->arguments, b->side->type, 0));
    int64_t elements = 0;

    for (int i = 0; i < b->count; i++)
        elements += count_of(e->arguments, b, i);
    return elements * f.size;
}

/* Return a datatype for a count that exceeds int. The caller frees it. */
static MPI_Datatype type_of_many(struct execution *e, const struct block_place *p)
{
    const int64_t part = INT64_C(1) << 30, parts = p->count / part;
    const MPI_Aint places[] = {0, (MPI_Aint)(parts * part * type_properties(p->type).extent)};
    const int one[] = {1, 1};
    MPI_Datatype piece, types[2], whole = p->type;

    execution_note_error(e, pmpi.Type_contiguous((int)part, p->type, &piece));
    execution_note_error(e, pmpi.Type_contiguous((int)parts, piece, &types[0]));
    execution_note_error(e, pmpi.Type_contiguous((int)(p->count % part), p->type, &types[1]));
    execution_note_error(e, pmpi.Type_create_struct(2, one, places, types, &whole));
    execution_note_error(e, pmpi.Type_commit(&whole));
    pmpi.Type_free(&piece);
    pmpi.Type_free(&types[0]);
    pmpi.Type_free(&types[1]);
    return whole;
}

/* Make the count fit in an int. Returns true if the caller must free the type. */
bool block_layout_limit_count(struct execution *e, struct block_place *p)
{
    if (p->count <= INT_MAX)
        return false;
    p->type = type_of_many(e, p);
    p->count = 1;
    return true;
}
