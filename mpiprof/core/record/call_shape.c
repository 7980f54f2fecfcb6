/* Call shapes: interned table rows that describe a call, so that a record needs only 32 bytes.
 *
 * Operation, communicator and call site are known at entry and select a group of shapes. A shape
 * adds root, bytes and flags. A program with changing sizes would create a shape per call, so
 * beyond the first MOST_SHAPES of a group the bytes go to extension records. Groups and shapes live
 * as long as the process. They are created under recorder.lock and read without it.
 */
#include <stdlib.h>

#include "base/operation.h"
#include "record/call.h"
#include "tracefile/tracefile.h"

enum { MOST_GROUPS = 1 << 21 };

static struct map groups;
static uint32_t signatures_made;

static bool shape_write(struct call_shape *s, const struct shape_group *f)
{
    static const char *const flag_names[] = {"in_place", "inter", "nonblocking", "persistent",
                                             "error"};
    struct text t = {0};
    const char *comma = "";

    s->id = ++signatures_made;
    text_add(&t, "{\"rank\": %d, \"shape\": %u, \"operation\": \"%s\", \"communicator\": %u, ",
             recorder.rank, s->id, operation_names[f->operation], f->comm->id);
    text_add(&t, "\"site\": %u, \"%s\": ", f->site->id,
             f->operation >= OP_MESSAGES ? "peer" : "root");
    text_add(&t, s->root == ROOT_NONE ? "null" : "%d", s->root);
    text_add(&t, s->sent < 0 ? ", \"sent\": null" : ", \"sent\": %lld", (long long)s->sent);
    text_add(&t, s->received < 0 ? ", \"received\": null" : ", \"received\": %lld",
             (long long)s->received);
    if (s->type != NULL)
        text_add(&t, ", \"type\": \"%s\"", s->type);
    if (s->reduction != NULL)
        text_add(&t, ", \"reduction\": \"%s\"", s->reduction);
    text_add(&t, ", \"algorithm\": \"%s\", \"flags\": [",
             s->algorithm != NULL ? s->algorithm : "native");
    for (unsigned i = 0; i < 5; i++)
        if (s->flags & 1u << i) {
            text_add(&t, "%s\"%s\"", comma, flag_names[i]);
            comma = ", ";
        }
    text_add(&t, "]}\n");
    const bool written = file_write_line(&t);

    text_free(&t);
    return written;
}

/* Return the group of an operation, communicator and site, or NULL if the table is full. */
struct shape_group *call_shapes_find(int operation, const struct communicator *comm,
                                     const struct site *site)
{
    static const uint32_t form_flags[] = {0, FLAG_NONBLOCKING, FLAG_PERSISTENT};
    const uint64_t key = (uint64_t)comm->id << 40 ^ (uint64_t)operation << 32 ^ site->id;
    struct shape_group *f = map_get(&groups, key);

    if (f != NULL)
        return f;
    recorder_lock();
    f = map_get(&groups, key);
    if (f == NULL && signatures_made < MOST_GROUPS && !atomic_load(&recorder.stopped)) {
        f = calloc(1, sizeof *f);
        if (f != NULL) {
            f->operation = operation;
            f->comm = comm;
            f->site = site;
            /* These operations move no bytes. */
            const bool known = (operation >= OP_COLLECTIVES && operation < OP_MESSAGES) ||
                               operation - operation_form(operation) == OP_barrier;
            const int64_t bytes = known ? 0 : -1;

            f->base = (struct call_shape){.root = ROOT_NONE,
                                          .sent = bytes,
                                          .received = bytes,
                                          .flags = form_flags[operation_form(operation)] |
                                                   (comm->inter ? FLAG_INTER : 0u)};
            f->shapes = known ? &f->base : NULL;
            if (!shape_write(&f->base, f) || !map_put(&groups, key, f)) {
                free(f);
                f = NULL;
            }
        }
    }
    recorder_unlock();
    return f;
}

static struct call_shape *shape_search(const struct shape_group *f, const struct call_shape *wanted)
{
    struct call_shape *s = atomic_load_explicit(&f->shapes, memory_order_acquire);

    for (; s != NULL; s = s->next)
        if (s->sent == wanted->sent && s->received == wanted->received && s->root == wanted->root &&
            s->flags == wanted->flags && s->algorithm == wanted->algorithm &&
            s->type == wanted->type && s->reduction == wanted->reduction)
            return s;
    return NULL;
}

/* Return the shape of a call, or NULL if the group or the table is full; then use extensions. */
struct call_shape *call_shape_find(struct shape_group *f, const struct call_shape *wanted)
{
    struct call_shape *s = shape_search(f, wanted);

    if (s != NULL)
        return s;
    recorder_lock();
    s = shape_search(f, wanted);
    /* The last entries are reserved for shapes without bytes, because root and flags must stay
     * exact. */
    if (s == NULL && f->count < (wanted->sent >= 0 ? MOST_SHAPES : 64 * MOST_SHAPES) &&
        signatures_made < MOST_GROUPS) {
        struct call_shape *const made = malloc(sizeof *made);

        if (made != NULL) {
            *made = *wanted;
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
