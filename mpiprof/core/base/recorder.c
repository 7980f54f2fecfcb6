/* State of this process, its lock, and messages to the user.
 *
 * Written at the start and end of recording (init/lifecycle.c, init/trace_agreement.c,
 * init/options.c) and read by all files.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    char line[1400] = "mpiprof: ";
    const size_t start = strlen(line);
    va_list arguments;

    if (recorder.options.quiet)
        return;
    va_start(arguments, format);
    vsnprintf(line + start, sizeof line - start - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n");
    signal_guard_print(line, strlen(line));
}
