/* Arguments of a call: root, bytes, types and reduction, as table rows that records refer to.
 *
 * Before the native routine has accepted a call's arguments, only the communicator is passed to the
 * library: a wrong datatype must reach the program as the library's own error. Values that need no
 * library call (root, count, predefined datatypes and reductions) are recorded at entry, because a
 * call that never ends must be identifiable. The others follow after the call.
 */
#include <string.h>

#include "base/operation.h"
#include "record/call.h"

/* Return the root with the tables' constants, which do not depend on the MPI library. */
static int table_root(const struct call *c)
{
    if (!c->comm->inter)
        return c->root;
    return c->root == MPI_ROOT ? -3 : c->root == MPI_PROC_NULL ? -2 : c->root;
}

static bool root_is_possible(const struct call *c)
{
    const struct communicator *const k = c->comm;

    if (c->root == ROOT_NONE || (k->inter && (c->root == MPI_ROOT || c->root == MPI_PROC_NULL)))
        return true;
    return c->root >= 0 && c->root < (k->inter ? k->remote_size : k->size);
}

static const struct call_shape *shape_of(const struct call *c, const struct byte_counts *m,
                                         bool known, uint32_t flags)
{
    const struct call_shape wanted = {.algorithm = c->algorithm,
                                      .type = m->type,
                                      .reduction = m->reduction,
                                      .root = table_root(c),
                                      .sent = known ? m->sent : -1,
                                      .received = known ? m->received : -1,
                                      .flags = m->flags | flags | c->shape_group->base.flags};

    return call_shape_find(c->shape_group, &wanted);
}

/* Set the record's shape. If the group has too many shapes, the bytes go to extension records. */
static const struct call_shape *shape_set(struct call *c, const struct byte_counts *m)
{
    const bool known = !m->unknown;
    const struct call_shape *s = call_extends_bytes(c) ? NULL : shape_of(c, m, known, 0);

    if (s == NULL) {
        s = shape_of(c, m, false, 0);
        if (call_extends_bytes(c) && known) {
            record_write_extension(c->record - 2, EXT_SENT, m->sent);
            record_write_extension(c->record - 1, EXT_RECEIVED, m->received);
        }
    }
    if (s != NULL)
        c->record->shape = c->shape = s->id;
    return s;
}

static uint64_t handle_at(const struct arguments *a, const void *handle, size_t bytes)
{
    uint64_t value = 0;

    if (handle != NULL)
        memcpy(&value, handle, a->fortran ? sizeof(MPI_Fint) : bytes);
    return value;
}

/* Collect the arguments of a call that has one count and one type per side. */
static inline struct call_arguments arguments_of(const struct call *c, const struct arguments *a)
{
    return (struct call_arguments){
        .root = c->root,
        .form = (unsigned)a->large | (unsigned)a->fortran << 1 |
                (unsigned)argument_in_place(a, a->sendbuf) << 2 |
                (unsigned)argument_in_place(a, a->recvbuf) << 3,
        .counts = {a->send.count != NULL ? argument_count(a, a->send.count, 0) : 0,
                   a->recv.count != NULL ? argument_count(a, a->recv.count, 0) : 0},
        .types = {handle_at(a, a->send.type, sizeof(MPI_Datatype)),
                  handle_at(a, a->recv.type, sizeof(MPI_Datatype))},
        .op = handle_at(a, a->op, sizeof(MPI_Op)),
    };
}

static inline bool arguments_equal(const struct call_arguments *a, const struct call_arguments *b)
{
    return a->root == b->root && a->form == b->form && a->counts[0] == b->counts[0] &&
           a->counts[1] == b->counts[1] && a->types[0] == b->types[0] &&
           a->types[1] == b->types[1] && a->op == b->op;
}

/* Record before the native routine the arguments that need no library call. Most calls have the
 * same arguments as the last call from the same site. */
void call_arguments_expected(struct call *c, const struct arguments *a)
{
    struct recent *const r = c->recent;
    struct byte_counts m = {0};

    if (c->operation - operation_form(c->operation) == OP_barrier) { /* has no arguments */
        c->expected = &c->shape_group->base;
        c->expected_is_exact = true;
        return;
    }
    const bool single = a->send.counts == NULL && a->recv.counts == NULL && !call_extends_bytes(c);
    struct call_arguments given;

    if (single) {
        given = arguments_of(c, a);
        if (r->described_group == c->shape_group && arguments_equal(&given, &r->arguments)) {
            c->expected = r->described_shape;
            c->expected_is_exact = true;
            c->record->shape = c->shape = r->described_shape->id;
            return;
        }
    }
    if (!root_is_possible(c))
        return;
    byte_counts(c, a, &m);
    c->expected = shape_set(c, &m);
    c->expected_is_exact = !m.unknown;
    if (single && c->expected_is_exact && c->expected != NULL && c->expected->sent >= 0) {
        r->arguments = given;
        r->described_group = c->shape_group;
        r->described_shape = c->expected;
    }
}

/* Set the shape of a failed call from its expected arguments. */
void call_arguments_failed(struct call *c)
{
    const struct call_shape *s = c->expected;
    struct byte_counts m = {.unknown = true};

    if (s != NULL)
        m = (struct byte_counts){.sent = s->sent,
                                 .received = s->received,
                                 .unknown = s->sent < 0,
                                 .type = s->type,
                                 .reduction = s->reduction};
    s = shape_of(c, &m, !m.unknown, FLAG_ERROR);
    c->record->shape = s != NULL ? s->id : c->shape;
}

/* Record bytes, root and flags of an accepted call. */
void call_arguments_accepted(struct call *c, const struct arguments *a)
{
    /* with a ring, also recorded calls are added to the totals */
    const bool totalled = recorder.options.totals || (c->record == NULL && record_is_summed());

    if (c->expected == NULL || !c->expected_is_exact || c->algorithm != NULL ||
        (totalled && c->expected->sent < 0)) { /* the bytes may be in extensions */
        struct byte_counts m = {.accepted = true};

        byte_counts(c, a, &m);
        if (totalled)
            record_summarise(c, m.sent, m.received);
        if (c->record == NULL)
            return;
        shape_set(c, &m);
    } else if (totalled) {
        record_summarise(c, c->expected->sent, c->expected->received);
    }
    c->record->choice = c->choice;
    atomic_thread_fence(memory_order_release);
    c->record->exit_ns = c->exit_ns;
}
