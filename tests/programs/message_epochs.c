/* A rank with a virtual clock that makes calls and collectives at a given rate. Arguments: calls per
 * second, steps, collectives of a step, time of a step in ms.
 *
 * It prints the begin and the end of each complete stretch in ms, one a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/recorder.h"
#include "record/message_epochs.h"
#include "tracefile/tracefile.h"

enum { STEP_NS = 1000000 }; /* between two calls of the epochs */

struct recorder recorder = {.options = {.limit = INT64_MAX, .messages = "auto"}};
static int64_t time_ns = 1000000000;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){time_ns / 1000000000, time_ns % 1000000000};
    return 0;
}

void recorder_lock(void)
{
}

void recorder_unlock(void)
{
}

int64_t file_clock_ahead(void)
{
    return 0;
}

bool file_write_line(const struct text *t)
{
    const char *const name = strstr(t->bytes, "_ns\": ");

    printf("%s %.0f\n", strstr(t->bytes, "begin_ns") ? "begin" : "end",
           (double)atoll(name + strlen("_ns\": ")) / 1e6);
    return true;
}

int main(int argc, char **argv)
{
    const int64_t rate = argc > 1 ? atoll(argv[1]) : 0;
    const int steps = argc > 2 ? atoi(argv[2]) : 0, collectives = argc > 3 ? atoi(argv[3]) : 0;
    const int64_t step_ns = argc > 4 ? atoll(argv[4]) * 1000000 : 1;

    message_epoch_start();
    for (int step = 0; step < steps; step++) {
        for (int64_t spent = 0; spent < step_ns; spent += STEP_NS) {
            time_ns += STEP_NS;
            if (message_is_logged(time_ns - 100, time_ns))
                message_epoch_count(rate * STEP_NS / 1000000000, 0);
        }
        for (int i = 0; i < collectives; i++)
            message_epoch_add_collective(1);
    }
    message_epoch_pause(true);
    return 0;
}
