/* Log of algorithm selection (selection.jsonl): each choice and its reason. The leaders of all
 * communicators append to it, so several processes and threads may enter this file at once. */
#include "tracefile/tracefile.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/recorder.h"

static struct fd_guard file = {.descriptor = -1}; /* protected by recorder.lock */

static bool is_open(void)
{
    if (file.descriptor >= 0)
        return fd_guard_is_valid(&file);
    const int descriptor =
        folder_open(recorder.folder, "selection.jsonl", O_WRONLY | O_CREAT | O_APPEND);

    if (descriptor >= 0)
        file = fd_guard_register(descriptor);
    return file.descriptor >= 0;
}

/* Create the file, which shows that selection was on, even if it never has a line. */
void selector_log_create(void)
{
    recorder_lock();
    if (!recorder.passive)
        is_open();
    recorder_unlock();
}

/* Append a line. Returns true if it was written. */
bool selector_log_add(const struct text *line)
{
    if (line->bytes == NULL || recorder.passive || atomic_load(&recorder.stopped))
        return false;
    const struct iovec part = {line->bytes, line->length};

    recorder_lock();
    const bool kept =
        is_open() && fd_guard_write(file.descriptor, &part, 1, -1) == (ssize_t)line->length;

    recorder_unlock();
    return kept;
}

void selector_log_close(void)
{
    if (file.descriptor >= 0 && fd_guard_is_valid(&file))
        close(file.descriptor);
    file.descriptor = -1;
}
