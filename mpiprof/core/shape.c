/* Interned rows of a table, so that a record is 32 bytes: what a call was.
 *
 * A family is what is known when a call begins: operation, communicator, call site. Its shapes add
 * root, bytes and flags. A program whose sizes wander would make a shape a call: behind the first
 * MANY shapes of a family, the bytes of a call stand in extension records.
 * Families and shapes live as long as the process; they are made under recorder.lock and read
 * without it.
 */
#include <stdlib.h>

#include "recorder.h"

enum { MANY = 64, MOST_SHAPES = 1 << 21 };

const char *const operation_names[OP_COUNT] = {OPERATION_NAMES};

static struct map families;
static uint32_t shapes_made;

static bool shape_write(struct shape *s, const struct family *f)
{
    static const char *const flag_names[] = {"in_place", "inter", "nonblocking", "persistent",
                                             "error"};
    struct text t = {0};
    const char *comma = "";

    s->id = ++shapes_made;
    text_add(&t, "{\"rank\": %d, \"shape\": %u, \"operation\": \"%s\", \"communicator\": %u, ",
             recorder.rank, s->id, operation_names[f->operation], f->comm->id);
    text_add(&t, "\"site\": %u, \"root\": ", f->site->id);
    text_add(&t, s->root == ROOT_NONE ? "null" : "%d", s->root);
    text_add(&t, s->sent < 0 ? ", \"sent\": null" : ", \"sent\": %lld", (long long)s->sent);
    text_add(&t, s->received < 0 ? ", \"received\": null" : ", \"received\": %lld",
             (long long)s->received);
    text_add(&t, ", \"algorithm\": \"%s\", \"flags\": [",
             s->algorithm != NULL ? s->algorithm : "native");
    for (unsigned i = 0; i < 5; i++)
        if (s->flags & 1u << i) {
            text_add(&t, "%s\"%s\"", comma, flag_names[i]);
            comma = ", ";
        }
    text_add(&t, "]}\n");
    const bool written = file_line(&t);

    text_free(&t);
    return written;
}

static uint32_t form_flags(int operation, const struct communicator *comm)
{
    static const uint32_t forms[] = {0, FLAG_NONBLOCKING, FLAG_PERSISTENT};

    return forms[operation_form(operation)] | (comm->inter ? FLAG_INTER : 0u);
}

/* The family of calls of an operation on a communicator from a site; NULL: no room. */
struct family *family_find(int operation, const struct communicator *comm, const struct site *site)
{
    const uint64_t key = (uint64_t)comm->id << 40 ^ (uint64_t)operation << 32 ^ site->id;
    struct family *f = map_get(&families, key);

    if (f != NULL)
        return f;
    recorder_lock();
    f = map_get(&families, key);
    if (f == NULL && shapes_made < MOST_SHAPES && !atomic_load(&recorder.stopped)) {
        f = calloc(1, sizeof *f);
        if (f != NULL) {
            f->operation = operation;
            f->comm = comm;
            f->site = site;
            const bool known = operation >= OP_COLLECTIVES; /* they move no bytes */
            const int64_t bytes = known ? 0 : -1;

            f->base = (struct shape){.root = ROOT_NONE,
                                     .sent = bytes,
                                     .received = bytes,
                                     .flags = form_flags(operation, comm)};
            f->shapes = known ? &f->base : NULL;
            if (!shape_write(&f->base, f) || !map_put(&families, key, f)) {
                free(f);
                f = NULL;
            }
        }
    }
    recorder_unlock();
    return f;
}

static struct shape *shape_search(const struct family *f, const struct shape *wanted)
{
    struct shape *s = atomic_load_explicit(&f->shapes, memory_order_acquire);

    for (; s != NULL; s = s->next)
        if (s->sent == wanted->sent && s->received == wanted->received && s->root == wanted->root &&
            s->flags == wanted->flags && s->algorithm == wanted->algorithm)
            return s;
    return NULL;
}

/* The shape of a call; NULL: the family has too many, or there is no room: use extensions. */
struct shape *shape_find(struct family *f, const char *algorithm, int root, int64_t sent,
                         int64_t received, uint32_t flags)
{
    const struct shape wanted = {.algorithm = algorithm,
                                 .root = root,
                                 .sent = sent,
                                 .received = received,
                                 .flags = flags | f->base.flags};
    struct shape *s = shape_search(f, &wanted);

    if (s != NULL)
        return s;
    recorder_lock();
    s = shape_search(f, &wanted);
    /* The last places are kept for shapes without bytes: root and flags must stay exact. */
    if (s == NULL && f->count < (sent >= 0 ? MANY : 64 * MANY) && shapes_made < MOST_SHAPES) {
        struct shape *const made = malloc(sizeof *made);

        if (made != NULL) {
            *made = wanted;
            if (shape_write(made, f)) {
                made->next = atomic_load(&f->shapes);
                atomic_store_explicit(&f->shapes, made, memory_order_release);
                f->count++;
                s = made;
            } else {
                free(made);
            }
        }
    }
    recorder_unlock();
    return s;
}
