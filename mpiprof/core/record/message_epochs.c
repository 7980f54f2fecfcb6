/* The stretches of time in which every call on messages is logged.
 *
 * With --messages auto, a rank logs every call while that takes at most MOST_SHARE_PERCENT of its
 * time, and its log at most half of --limit. Beyond that it logs in windows that begin and end alike
 * on all ranks, without a message between them. Time is cut into epochs, from a clock that all
 * nodes share, and a rank of level L logs each epoch whose number is a multiple of 2^L:
 *
 *   epoch     0    1    2    3    4    5    6    7    8
 *   level 0   ############################################
 *   level 1   #####     #####     #####     #####     #####
 *   level 2   #####               #####               #####
 *
 * So the epochs of the highest level are complete on all ranks. Epochs are FIRST_EPOCH_NS long, and
 * twice as long each time the age of the run doubles, so that they cover whole steps of a program:
 * after 256 equal steps, an epoch is at least 2 steps long.
 *
 * The level remains 0 during the first steps of a program, so that short runs have whole steps, too.
 * All ranks make equally many blocking collectives on MPI_COMM_WORLD and on other communicators of
 * all ranks, such as its duplicates, so they record the same steps without a message. Until then,
 * recording may take FIRST_SHARE_PERCENT of a rank's time.
 *
 * A line in the tables marks each begin and each end of a complete stretch; readers use only these
 * lines, so that a rank whose clock differs spoils no sentence.
 *
 * Threads: any. One of them computes the next epoch, under recorder.lock.
 */
#include "record/message_epochs.h"

#include <string.h>

#include "base/recorder.h"
#include "tracefile/tracefile.h"

enum {
    FIRST_EPOCH_NS = 100000000,
    EPOCHS_PER_OCTAVE = 128, /* after them the length doubles */
    MOST_LEVEL = 4,          /* at least one epoch in 16 is complete */
    MOST_SHARE_PERCENT = 2,
    FIRST_SECONDS = 30, /* most time of these steps; a tenth of it until a first collective */
    FIRST_SHARE_PERCENT = 10,
    RECORD_COST_NS = 20, /* to write, pack and store a record */
    EPOCHS_BEFORE_CHANGE = 2
};

_Atomic enum message_level message_epoch_level;
_Atomic int64_t message_epoch_begin_ns, message_epoch_end_ns = INT64_MAX;
atomic_bool message_epoch_is_complete;
atomic_int message_epoch_collectives;

static _Atomic int64_t logged_records, logged_bytes;
/* protected by recorder.lock: */
static int64_t age_origin_ns, counted_records;
static int64_t earliest_ns;  /* before it, calls may be missing */
static int level, exceeding; /* exceeding: complete epochs in a row beyond the budget */
static bool has_epochs, has_ended;

/* Write the begin or the end of a complete stretch to the tables. */
static void stretch_write(const char *what, int64_t at_ns)
{
    struct text t = {0};

    text_add(&t, "{\"rank\": %d, \"complete\": {\"%s\": %lld}}\n", recorder.rank, what,
             (long long)at_ns);
    file_write_line(&t);
    text_free(&t);
}

static void complete_set(bool complete, int64_t at_ns)
{
    if (complete == atomic_load(&message_epoch_is_complete))
        return;
    stretch_write(complete ? "begin_ns" : "end_ns", at_ns > earliest_ns ? at_ns : earliest_ns);
    atomic_store_explicit(&message_epoch_is_complete, complete, memory_order_release);
}

/* Return true during the first steps of a program, as far as its collectives show them. */
static bool is_first(int64_t now)
{
    const int made = atomic_load(&message_epoch_collectives);
    const int64_t most_ns = (int64_t)FIRST_SECONDS * (made > 0 ? 1000000000 : 100000000);

    return made < FIRST_COLLECTIVES && now - age_origin_ns < most_ns;
}

/* Return the level whose share of epochs keeps a cost within the budget. */
static int level_of_cost(int64_t records, int64_t span_ns, int percent)
{
    int needed = 0;

    while (needed < MOST_LEVEL && (records * RECORD_COST_NS * 100) >> needed > span_ns * percent)
        needed++;
    return needed;
}

/* Return the level that is due when the log has used a part of its bytes: each level may use half
 * of the rest. */
static int level_of_size(void)
{
    const int64_t most = recorder.options.limit / 2, used = atomic_load(&logged_bytes);
    int needed = 0;

    while (needed < MOST_LEVEL && used > most - (most >> (needed + 1)))
        needed++;
    return needed;
}

/* Raise the level after a complete epoch that exceeded the budget. */
static void level_update(int64_t now)
{
    const int64_t records = atomic_load(&logged_records) - counted_records;
    const int64_t span = now - atomic_load(&message_epoch_begin_ns);
    const int by_size = level_of_size();

    counted_records += records;
    if (!atomic_load(&message_epoch_is_complete))
        return;
    const int percent = is_first(now) ? FIRST_SHARE_PERCENT : MOST_SHARE_PERCENT;
    const int by_cost = level_of_cost(records, span, percent);

    exceeding = by_cost > level ? exceeding + 1 : 0;
    if (exceeding >= EPOCHS_BEFORE_CHANGE) {
        level = by_cost;
        exceeding = 0;
    }
    level = by_size > level ? by_size : level;
}

/* Compute the epoch of the present time. Since the end of the one before, no call has ended. */
void message_epoch_turn(int64_t now)
{
    recorder_lock();
    const int64_t end = atomic_load(&message_epoch_end_ns);

    if (has_epochs && !has_ended && now >= end) {
        const int64_t ahead = file_clock_ahead(), common = now + ahead;
        int64_t length = FIRST_EPOCH_NS;

        level_update(now);
        for (int64_t age = now - age_origin_ns; age >= length * EPOCHS_PER_OCTAVE;)
            length *= 2;
        const int64_t number = common / length - (common % length < 0);
        const int64_t begin = number * length - ahead;

        atomic_store(&message_epoch_begin_ns, begin);
        if (begin > end)
            complete_set(true, end);
        complete_set((number & ((1 << level) - 1)) == 0, begin);
        atomic_store(&message_epoch_end_ns, begin + length);
    }
    recorder_unlock();
}

/* Start complete stretches, at MPI_Init or after a pause. The caller holds recorder.lock. */
static void stretches_start(int64_t now)
{
    earliest_ns = now;
    atomic_store(&message_epoch_begin_ns, now);
    atomic_store(&message_epoch_end_ns, has_epochs ? now : INT64_MAX);
    complete_set(!has_epochs || level == 0, now);
}

void message_epoch_start(void)
{
    const char *const text = recorder.options.messages;
    enum message_level wanted = strcmp(text, "off") == 0    ? MESSAGES_OFF
                                : strcmp(text, "sums") == 0 ? MESSAGES_SUMS
                                : strcmp(text, "all") == 0  ? MESSAGES_ALL
                                                            : MESSAGES_AUTO;

    /* A ring holds the newest collectives, and a summary no log. */
    if (wanted > MESSAGES_SUMS && (recorder.options.ring > 0 || recorder.options.summary))
        wanted = MESSAGES_SUMS;
    atomic_store(&message_epoch_level, wanted);
    has_epochs = wanted == MESSAGES_AUTO;
    has_ended = wanted <= MESSAGES_SUMS || atomic_load(&recorder.stopped);
    if (has_ended)
        return;
    recorder_lock();
    age_origin_ns = now_ns();
    stretches_start(age_origin_ns);
    recorder_unlock();
}

/* Count records that were logged, and bytes that they took. */
void message_epoch_count(int64_t records, int64_t bytes)
{
    atomic_fetch_add_explicit(&logged_records, records, memory_order_relaxed);
    atomic_fetch_add_explicit(&logged_bytes, bytes, memory_order_relaxed);
}

/* End the complete stretch while recording is paused (MPI_Pcontrol). */
void message_epoch_pause(bool paused)
{
    recorder_lock();
    if (!has_ended && paused) {
        complete_set(false, now_ns());
        atomic_store(&message_epoch_end_ns, INT64_MAX);
    } else if (!has_ended) {
        stretches_start(now_ns());
    }
    recorder_unlock();
}

/* End the last complete stretch, because the log has no room for further calls. */
void message_epoch_stop(void)
{
    recorder_lock();
    if (!has_ended)
        complete_set(false, now_ns());
    has_ended = true;
    atomic_store(&message_epoch_end_ns, INT64_MAX);
    recorder_unlock();
}
