/* State of this process, its lock, and messages to the user.
 *
 * Written at the start and end of recording (init/lifecycle.c, init/trace_agreement.c,
 * init/options.c) and read by all files.
 */
#include "base/recorder.h"

struct recorder recorder = {.rank = -1};
struct hooks hooks;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void recorder_lock(void)
{
    lock_acquire(&lock);
}

void recorder_unlock(void)
{
    lock_release(&lock);
}

void recorder_print(const char *format, ...)
{
    struct text line = {0};
    va_list arguments;

    if (recorder.options.quiet)
        return;
    va_start(arguments, format);
    text_add(&line, "mpiprof: ");
    text_format(&line, format, arguments);
    text_add(&line, "\n");
    va_end(arguments);
    if (line.bytes != NULL)
        signal_guard_print(line.bytes, line.length);
    text_free(&line);
}
