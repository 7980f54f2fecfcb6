/* Reads records of calls from an open log, many ranks at a time.
 *
 * It has no MPI and no state. Caller: mpiprof/trace/record_read.py, from any thread. The caller owns
 * all arrays. The file may be damaged or end earlier; then the rank has no plain records. */
#include <errno.h>
#include <unistd.h>

#include "base/base.h"
#include "tracefile/event.h"

enum { NOT_PLAIN = -1 };

/* Fills `records` from an offset on. Returns false if the file ends earlier. */
static bool read_records(int file, struct record *records, int64_t count, int64_t offset)
{
    char *into = (char *)records;
    size_t left = (size_t)count * sizeof *records;

    while (left > 0) {
        const ssize_t bytes = pread(file, into, left, offset);

        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes <= 0)
            return false;
        into += bytes;
        offset += bytes;
        left -= (size_t)bytes;
    }
    return true;
}

/* Returns the number of calls if all other records are empty and behind them, else NOT_PLAIN. */
static int64_t count_plain(const struct record *records, int64_t count)
{
    int64_t calls = 0;

    while (calls < count && records[calls].kind == KIND_call)
        calls++;
    for (int64_t i = calls; i < count; i++)
        if (records[i].kind != KIND_empty)
            return NOT_PLAIN;
    return calls;
}

/* Calls of some ranks as columns. The fields have the names and the order of record_read.CALLS. */
struct calls {
    int64_t file, ranks;
    const int64_t *rank_end;                /* of each rank: the end of its pieces */
    const int64_t *offset, *count;          /* of each piece of the file */
    const int64_t *earliest_ns, *latest_ns; /* of each rank: limits of its times */
    const int64_t *shape_end, *joint_shape; /* of each rank: the end of the ids of its shapes */
    struct record *records;                 /* room for the records of one rank */
    int64_t *calls;                         /* result: of each rank */
    uint32_t *sequence;                     /* results: of each call, rank after rank */
    int64_t *enter_ns, *exit_ns;
    int32_t *shape;
    int64_t *outside_ns;
    uint8_t *choice;
};

/* Reads the pieces of a rank into `records`, without the empty records at their end.
 *
 * Returns the number of calls, or NOT_PLAIN if the rank has other records. */
static int64_t read_rank(const struct calls *run, int64_t piece, int64_t end)
{
    int64_t calls = 0;
    bool is_full = true;

    for (; piece < end; piece++) {
        struct record *const part = run->records + calls;
        const int64_t count = run->count[piece];

        if (!is_full || !read_records((int)run->file, part, count, run->offset[piece]))
            return NOT_PLAIN;
        const int64_t plain = count_plain(part, count);

        if (plain == NOT_PLAIN)
            return NOT_PLAIN;
        is_full = plain == count;
        calls += plain;
    }
    return calls;
}

/* Writes the calls of a rank to the columns from `at` on. Returns false if one is impossible. */
static bool write_calls(const struct calls *run, int64_t rank, int64_t calls, int64_t at)
{
    const int64_t first = rank > 0 ? run->shape_end[rank - 1] : 0;
    const int64_t beyond = run->shape_end[rank] - first - 1; /* for all shapes beyond the tables */
    const int64_t earliest_ns = run->earliest_ns[rank], latest_ns = run->latest_ns[rank];
    bool is_possible = true;

    for (int64_t i = 0; i < calls; i++) {
        const struct record *const call = &run->records[i];
        const int64_t number = call->shape < beyond ? call->shape : beyond;
        const int64_t shape = run->joint_shape[first + number];

        is_possible &= call->enter_ns >= earliest_ns && call->exit_ns <= latest_ns &&
                       call->exit_ns >= call->enter_ns && shape >= 0;
        run->sequence[at + i] = call->sequence;
        run->enter_ns[at + i] = call->enter_ns;
        run->exit_ns[at + i] = call->exit_ns;
        run->shape[at + i] = (int32_t)shape;
        run->outside_ns[at + i] = call->outside_ns;
        run->choice[at + i] = call->choice;
    }
    return is_possible;
}

/* Reads the calls of some ranks.
 *
 * The number of a rank's calls is NOT_PLAIN, and its calls are missing, if it has other records or
 * impossible ones. Only the last piece of a rank may have empty records. */
PUBLIC void record_read_calls(const struct calls *run)
{
    int64_t at = 0;

    for (int64_t rank = 0; rank < run->ranks; rank++) {
        const int64_t begin = rank > 0 ? run->rank_end[rank - 1] : 0;
        int64_t calls = read_rank(run, begin, run->rank_end[rank]);

        if (calls > 0 && !write_calls(run, rank, calls, at))
            calls = NOT_PLAIN;
        run->calls[rank] = calls;
        at += calls > 0 ? calls : 0;
    }
}

/* Finds the first call of each chunk that does not begin before a time; NOT_PLAIN if unknown.
 *
 * offset: of the records of each chunk. records: has room for the `count` records of one. */
PUBLIC void record_read_find(int64_t file, int64_t chunks, const int64_t *offset, int64_t count,
                             const int64_t *time_ns, struct record *records, int64_t *first)
{
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        int64_t low = 0, high = count;

        first[chunk] = NOT_PLAIN;
        if (!read_records((int)file, records, count, offset[chunk]) ||
            count_plain(records, count) != count)
            continue;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;

            if ((int64_t)records[middle].enter_ns < time_ns[chunk])
                low = middle + 1;
            else
                high = middle;
        }
        first[chunk] = low;
    }
}
