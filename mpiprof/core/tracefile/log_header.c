/* The first chunk of a log: a line of JSON that describes the record format, and the time of the
 * first fatal signal. After it, for the recorder only: the ends of the log and the tables, and the
 * ranks that write to them. */
#include "tracefile/tracefile.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/operation.h"
#include "base/recorder.h"

static void format_add(struct text *t)
{
    const char *comma = "";

    text_add(t, "{\"format\": \"mpiprof log\", \"version\": 3, \"chunk_bytes\": %d, ", CHUNK_BYTES);
    text_add(t, "\"header_bytes\": %d, \"record_bytes\": %zu, \"record\": [", CHUNK_HEAD,
             sizeof(struct record));
#define FIELD(type, name, format)                                                                  \
    text_add(t, "%s[\"%s\", \"%s\", %zu]", comma, #name, format, offsetof(struct record, name));   \
    comma = ", ";
    RECORD_FIELDS(FIELD)
#undef FIELD
    text_add(t, "], \"header\": [");
    comma = "";
#define FIELD(type, name, format)                                                                  \
    text_add(t, "%s[\"%s\", \"%s\", %zu]", comma, #name, format,                                   \
             offsetof(struct chunk_head, name));                                                   \
    comma = ", ";
    CHUNK_FIELDS(FIELD)
#undef FIELD
    text_add(t, "], \"kinds\": [");
    comma = "";
#define KIND(name)                                                                                 \
    text_add(t, "%s\"%s\"", comma, #name);                                                         \
    comma = ", ";
    KINDS(KIND)
#undef KIND
    text_add(t, "], \"operations\": [");
    for (int i = 0; i < OP_COUNT; i++)
        text_add(t, "%s\"%s\"", i > 0 ? ", " : "", operation_names[i]);
    text_add(t, "], \"signal_at\": %zu", offsetof(struct log_header, signal_ns));
    if (recorder.options.ring > 0)
        text_add(t, ", \"ring_bytes\": %lld", (long long)recorder.options.ring);
    text_add(t, "}\n");
    checksum_close(t);
}

/* Create the header of a new log. Returns NULL with errno set on failure. */
struct log_header *log_header_create(int descriptor)
{
    struct text t = {0};
    const int failed = fd_guard_reserve(descriptor, 0);

    if (failed != 0) {
        errno = failed;
        return NULL;
    }
    struct log_header *const h = mapped_add(descriptor, 0, CHUNK_BYTES, 0);

    if (h == NULL)
        return NULL;
    format_add(&t);
    if (t.length < HEAD_TEXT)
        memcpy(h->text, t.bytes, t.length);
    text_free(&t);
    atomic_store(&h->end, CHUNK_BYTES);
    return h;
}

/* Wait until the rank of this node that created the log has written its header, and map it. */
struct log_header *log_header_open(int descriptor)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct log_header *h = NULL;
    struct stat s;

    for (int tries = 0; tries < 5000; tries++, nanosleep(&pause, NULL)) {
        if (h == NULL && signal_guard_file_status(descriptor, &s)) {
            if (s.st_nlink == 0) /* the creating rank failed and removed the file */
                break;
            if (s.st_size >= CHUNK_BYTES && (h = mapped_add(descriptor, 0, CHUNK_BYTES, 0)) == NULL)
                return NULL;
        }
        if (h != NULL && atomic_load(&h->end) != 0)
            return h;
    }
    if (h != NULL)
        mapped_remove(h);
    errno = ETIMEDOUT;
    return NULL;
}

/* Claim a rank for this process. Returns false if another process writes for the same rank. */
bool log_header_claim(struct log_header *h, int rank)
{
    const uint32_t mine = (uint32_t)rank + 1;

    for (size_t i = 0; i < HEAD_CLAIMS; i++) {
        uint32_t there = 0;

        if (atomic_compare_exchange_strong(&h->claims[i], &there, mine))
            return true;
        if (there == mine)
            break;
    }
    errno = EEXIST;
    return false;
}

/* Release the claim, so that another process may write for the rank. */
void log_header_release(struct log_header *h, int rank)
{
    for (size_t i = 0; i < HEAD_CLAIMS; i++)
        if (atomic_load(&h->claims[i]) == (uint32_t)rank + 1)
            atomic_store(&h->claims[i], HEAD_RELEASED);
}

/* Store the time of a fatal signal, unless a rank has stored an earlier one, and the number of the
 * launcher's children, unless a rank has stored a larger one. Safe in a signal handler. */
void log_header_note_signal(struct log_header *h, int64_t time_ns, int siblings)
{
    int64_t none = 0, most = atomic_load(&h->siblings);

    atomic_compare_exchange_strong(&h->signal_ns, &none, time_ns);
    while (siblings > most && !atomic_compare_exchange_weak(&h->siblings, &most, siblings))
        ;
}
