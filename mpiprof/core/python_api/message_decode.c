/* Records of messages and intervals of all ranks as columns.
 *
 * It has no MPI and no state. Caller: mpiprof/trace/message_decoder.py, from any thread. The caller
 * owns all arrays. A running job may write records for which the tables have no room. They are
 * ignored. */
#include <string.h>

#include "python_api/messages.h"
#include "tracefile/tracefile.h"

enum {
    UNKNOWN = -1,     /* in place of a shape or a counter */
    DISTANCE_MAX = 4, /* from the first record of an interval to the interval */
    UNKNOWN_PROCESSOR = 0xffff
};
#define NO_SHAPE UINT32_MAX
#define UNKNOWN_US UINT32_MAX
#define MAX_VALUE ((int64_t)1 << 62)

/* The columns, and the rank that is decoded. The fields have the order of message_decoder.Decoder. */
struct decoder {
    int64_t rank, shape_count, low_ns, high_ns; /* possible times, on the node's clock */
    int64_t from_ns, until_ns;    /* intervals that begin at other times are not needed, */
    int64_t margin_ns;            /* nor calls that end or begin so long before or after */
    int64_t complete_until_ns;    /* later calls and intervals lack those of other ranks */
    int64_t origin_ns, offset_ns; /* of the clock, as in trace/clock.py */
    double drift;
    const int32_t *shapes; /* joint number of each of the rank's shapes, or UNKNOWN */
    /* Numbers of rows so far. owned_parts: those with a call, which follows its parts. */
    int64_t calls, parts, owned_parts, intervals, counters, pressures;
    int64_t damaged_calls, damaged_intervals;
    struct {
        int64_t calls, parts, intervals, counters, pressures;
    } room;                           /* sizes of the tables in rows */
    struct record last[DISTANCE_MAX]; /* the thread's last records; empty at its begin */
    int64_t *enter_ns, *exit_ns, *part_count, *polled_ns; /* of each call */
    int32_t *call_rank, *call_thread, *call_shape, *call_epoch, *call_lock, *call_polls;
    struct message *messages;   /* of each part */
    int64_t *begin_ns, *end_ns; /* of each interval */
    int32_t *interval_rank, *interval_thread, *before_shape, *after_shape;
    int64_t *counted; /* of the counters: row of their interval; then as in trace/intervals.py */
    int64_t *gap_ns, *processor_ns, *queue_ns, *voluntary, *involuntary, *instructions, *cycles;
    int64_t *minor_faults, *major_faults, *untracked_ns, *gc_ns, *first_processor, *last_processor;
    int64_t *other_threads_ns;
    int64_t *pressed; /* of the readings of the node: row of their interval */
    int64_t *since_ns, *throttled_ns, *processor_pressure_ns, *io_pressure_ns, *memory_pressure_ns;
};

/* Returns the nearest integer, of two the even one, as rint() of libm does. */
static double nearest(double value)
{
    const double large = 0x1.8p52; /* there, the distance between two numbers is 1 */

    return value > -0x1p51 && value < 0x1p51 ? value + large - large : value;
}

static int64_t to_global(const struct decoder *d, int64_t time_ns)
{
    if (d->drift == 0)
        return time_ns + d->offset_ns;
    return (int64_t)nearest((double)(time_ns - d->origin_ns) * d->drift) + time_ns + d->offset_ns;
}

/* Returns the joint number of a shape, or UNKNOWN. */
static int32_t joint_shape(const struct decoder *d, uint32_t shape)
{
    return shape < d->shape_count ? d->shapes[shape] : UNKNOWN;
}

static void add_part(struct decoder *d, const struct record *r)
{
    const int32_t shape = joint_shape(d, r->shape);

    if (shape < 0 || d->parts >= d->room.parts)
        return;
    d->messages[d->parts++] = (struct message){
        .posted_ns = to_global(d, r->enter_ns),
        .bytes = r->exit_ns,
        .call = (int32_t)d->calls,
        .partner = NO_MESSAGE,
        .number = r->sequence,
        .tag = (int32_t)r->outside_ns,
        .shape = shape,
        .flags = (uint8_t)(r->choice % MESSAGE_RECEIVED |
                           (r->choice & (PART_ANY_SOURCE | PART_IN_ORDER)) |
                           (r->kind == KIND_received ? MESSAGE_RECEIVED : 0)),
    };
}

/* Returns true if the last row is a poll that this call has ended. */
static bool ends_poll(const struct decoder *d, const struct record *r, int64_t enter_ns)
{
    const int64_t row = d->calls - 1;

    return row >= 0 && r->kind != KIND_poll && d->call_polls[row] > 0 &&
           d->polled_ns[row] == enter_ns && d->exit_ns[row] == enter_ns &&
           d->call_rank[row] == d->rank && d->call_thread[row] == r->thread;
}

/* Returns the row for a call. A call that ends a poll gets the row of that, which begins with it. */
static int64_t row_begin(struct decoder *d, const struct record *r)
{
    const int64_t enter_ns = to_global(d, r->enter_ns);

    if (ends_poll(d, r, enter_ns)) {
        d->calls--;
        for (int64_t i = d->owned_parts; i < d->parts; i++)
            d->messages[i].call--;
        return d->calls;
    }
    d->enter_ns[d->calls] = enter_ns;
    d->call_polls[d->calls] = 0;
    d->polled_ns[d->calls] = 0;
    return d->calls;
}

/* Returns true if a call ends before or begins after the required times. */
static bool is_outside(const struct decoder *d, const struct record *r)
{
    const int64_t enter_ns = to_global(d, r->enter_ns);

    return enter_ns >= d->until_ns + d->margin_ns || enter_ns >= d->complete_until_ns ||
           (r->exit_ns != 0 && to_global(d, r->exit_ns) < d->from_ns - d->margin_ns);
}

/* Adds a call, or drops it with its parts if it is impossible or outside. */
static void add_call(struct decoder *d, const struct record *r)
{
    const int32_t shape = joint_shape(d, r->shape);

    if (d->calls >= d->room.calls || is_outside(d, r)) {
        d->parts = d->owned_parts;
        return;
    }
    if (r->enter_ns < d->low_ns || r->enter_ns > d->high_ns || r->exit_ns > d->high_ns ||
        (r->exit_ns != 0 && r->exit_ns < r->enter_ns) || shape < 0) {
        d->damaged_calls++;
        d->parts = d->owned_parts;
        return;
    }
    const bool is_local = r->kind == KIND_local_call, is_poll = r->kind == KIND_poll;
    const int64_t row = row_begin(d, r);

    d->exit_ns[row] = r->exit_ns == 0 ? 0 : to_global(d, r->exit_ns);
    d->call_rank[row] = (int32_t)d->rank;
    d->call_thread[row] = r->thread;
    d->part_count[row] = is_local || is_poll ? 0 : r->sequence;
    d->call_epoch[row] = is_local ? (int32_t)r->sequence : 0;
    d->call_lock[row] = is_local ? r->choice : 0;
    if (is_poll) {
        d->call_polls[row] = (int32_t)(r->sequence & INT32_MAX);
        d->polled_ns[row] = d->exit_ns[row];
    }
    d->call_shape[row] = shape;
    d->calls++;
    d->owned_parts = d->parts;
}

static int64_t count_us(uint32_t value)
{
    return value == UNKNOWN_US ? UNKNOWN : (int64_t)value * 1000;
}

static int64_t processor_number(uint16_t value)
{
    return value == UNKNOWN_PROCESSOR ? UNKNOWN : value;
}

static bool is_possible(int64_t value)
{
    return value >= UNKNOWN && value <= MAX_VALUE;
}

/* Writes the counters of an interval to the next row, and returns true if they are possible.
 * threads: NULL if the other threads of the process did not run, or are unknown. */
static bool set_counters(const struct decoder *d, const struct record *threads,
                         const struct record *times, const struct record *counts,
                         const struct record *r)
{
    const int64_t row = d->counters;

    d->counted[row] = d->intervals;
    d->gap_ns[row] = r->outside_ns;
    d->processor_ns[row] = times->enter_ns;
    d->queue_ns[row] = times->exit_ns;
    d->voluntary[row] = times->sequence;
    d->involuntary[row] = times->shape;
    d->untracked_ns[row] = count_us(times->outside_ns);
    d->first_processor[row] = processor_number(times->thread);
    d->instructions[row] = counts->enter_ns;
    d->cycles[row] = counts->exit_ns;
    d->minor_faults[row] = counts->sequence;
    d->major_faults[row] = counts->shape;
    d->gc_ns[row] = count_us(counts->outside_ns);
    d->last_processor[row] = processor_number(counts->thread);
    d->other_threads_ns[row] = threads != NULL      ? threads->enter_ns
                               : times->choice == 1 ? 0
                                                    : UNKNOWN;
    return is_possible(d->other_threads_ns[row]) && is_possible(times->enter_ns) &&
           is_possible(times->exit_ns) && is_possible(counts->enter_ns) &&
           is_possible(counts->exit_ns);
}

/* Writes the reading of the node, likewise. */
static bool set_pressure(const struct decoder *d, const struct record *p)
{
    const int64_t row = d->pressures;

    d->pressed[row] = d->intervals;
    d->since_ns[row] = p->enter_ns < 0 ? UNKNOWN : to_global(d, p->enter_ns);
    d->throttled_ns[row] = p->exit_ns;
    d->processor_pressure_ns[row] = count_us(p->sequence);
    d->io_pressure_ns[row] = count_us(p->shape);
    d->memory_pressure_ns[row] = count_us(p->outside_ns);
    return is_possible(p->exit_ns);
}

/* Adds an interval, or drops it if it is impossible. before: the records before it in reverse. */
static void add_interval(struct decoder *d, const struct record *r,
                         const struct record *const before[DISTANCE_MAX])
{
    const int32_t after = r->shape == NO_SHAPE ? UNKNOWN : joint_shape(d, r->shape);
    const int32_t ahead = r->sequence == NO_SHAPE ? UNKNOWN : joint_shape(d, r->sequence);
    const bool has_counters =
        before[0]->kind == KIND_interval_counts && before[1]->kind == KIND_interval_times;
    const struct record *const threads =
        has_counters && before[2]->kind == KIND_interval_threads ? before[2] : NULL;
    const struct record *const pressure = before[has_counters ? 2 + (threads != NULL) : 0];
    const bool has_pressure = pressure->kind == KIND_interval_pressure;
    const int64_t row = d->intervals, begin_ns = to_global(d, r->enter_ns);
    const int64_t end_ns = to_global(d, r->exit_ns);

    if (begin_ns < d->from_ns || begin_ns >= d->until_ns || end_ns > d->complete_until_ns ||
        row >= d->room.intervals || (has_counters && d->counters >= d->room.counters) ||
        (has_pressure && d->pressures >= d->room.pressures))
        return;
    if (r->enter_ns < d->low_ns || r->enter_ns > r->exit_ns || r->exit_ns > d->high_ns ||
        (after < 0 && r->shape != NO_SHAPE) || (ahead < 0 && r->sequence != NO_SHAPE) ||
        (has_counters && !set_counters(d, threads, before[1], before[0], r)) ||
        (has_pressure && !set_pressure(d, pressure))) {
        d->damaged_intervals++;
        return;
    }
    d->begin_ns[row] = begin_ns;
    d->end_ns[row] = end_ns;
    d->before_shape[row] = ahead;
    d->after_shape[row] = after;
    d->interval_rank[row] = (int32_t)d->rank;
    d->interval_thread[row] = r->thread;
    d->intervals++;
    d->counters += has_counters;
    d->pressures += has_pressure;
}

/* Returns the records of a chunk of a block, whose chunks are at a distance of `stride` bytes. */
static const struct record *chunk_records(const char *block, int64_t chunk, int64_t stride)
{
    return (const struct record *)(const void *)(block + chunk * stride);
}

/* Adds the largest possible numbers of rows of each table in a block of records to `rows`. */
PUBLIC void message_decode_count(const char *block, int64_t chunks, int64_t count, int64_t stride,
                                 int64_t *rows)
{
    int64_t kinds[UINT8_MAX + 1] = {0};

    for (int64_t chunk = 0; chunk < chunks; chunk++)
        for (int64_t i = 0; i < count; i++)
            kinds[chunk_records(block, chunk, stride)[i].kind]++;
    rows[0] += kinds[KIND_message_call] + kinds[KIND_local_call] + kinds[KIND_poll];
    rows[1] += kinds[KIND_sent] + kinds[KIND_received];
    rows[2] += kinds[KIND_interval];
    rows[3] += kinds[KIND_interval_counts];
    rows[4] += kinds[KIND_interval_pressure];
}

/* Decodes the next chunk of the rank's thread. */
static void decode_chunk(struct decoder *d, const struct record *records, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const struct record *const r = &records[i];

        if (r->kind == KIND_sent || r->kind == KIND_received) {
            add_part(d, r);
        } else if (r->kind == KIND_message_call || r->kind == KIND_local_call ||
                   r->kind == KIND_poll) {
            add_call(d, r);
        } else if (r->kind == KIND_interval) {
            const struct record *before[DISTANCE_MAX];

            for (int64_t k = 0; k < DISTANCE_MAX; k++)
                before[k] = i > k ? r - 1 - k : &d->last[DISTANCE_MAX - 1 - k + i];
            add_interval(d, r, before);
        }
    }
    for (int64_t k = 0; k < DISTANCE_MAX && count > 0; k++) {
        const int64_t from = count - DISTANCE_MAX + k;

        d->last[k] = from >= 0 ? records[from] : d->last[k + count];
    }
}

/* Decodes the next block of records of the rank's thread. */
PUBLIC void message_decode_records(struct decoder *d, const char *block, int64_t chunks,
                                   int64_t count, int64_t stride)
{
    for (int64_t chunk = 0; chunk < chunks; chunk++)
        decode_chunk(d, chunk_records(block, chunk, stride), count);
}

/* Ends a thread: parts without a call belong to none. */
PUBLIC void message_decode_end(struct decoder *d)
{
    d->parts = d->owned_parts;
    memset(d->last, 0, sizeof d->last);
}

/* Returns the checksum of a chunk that contains it at an offset. */
PUBLIC uint32_t message_decode_checksum(const char *chunk, size_t length, size_t offset)
{
    return checksum_words(chunk, length, offset);
}
