/* The end of a process: its record in the tables, and the lines for the user.
 *
 * One thread is in this file, the one that ends MPI or aborts (lifecycle.c).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "init/init.h"
#include "record/record.h"
#include "timing/timing.h"
#include "tracefile/tracefile.h"

/* Write the end record without heap memory: programs call MPI_Abort in signal handlers, where the
 * heap's lock may be taken. again: replace the end record that is written already. */
void end_record_write(const char *reason, bool again)
{
    static bool ended;

    char line[400];
    struct text t = {.bytes = line, .room = sizeof line};

    if (ended && !again)
        return;
    ended = true;
    text_add(&t,
             "{\"rank\": %d, \"end\": {\"at_ns\": %lld, \"reason\": \"%s\", \"dropped\": %llu, ",
             recorder.rank, (long long)now_ns(), reason, (unsigned long long)record_dropped());
    text_add(&t, "\"recorder_ns\": %lld, \"chunks\": %u}}\n", (long long)record_overhead_ns(),
             file_chunk_count());
    file_write_line(&t);
}

void end_record_report(bool launched_alone)
{
    const char *const folder = recorder.folder;
    char *const here = getcwd(NULL, 0);
    size_t skip = 0;

    if (here != NULL && strncmp(folder, here, strlen(here)) == 0 && folder[strlen(here)] == '/')
        skip = strlen(here) + 1;
    free(here);
    recorder_print("trace of %d rank%s in %s", recorder.size, &"s"[recorder.size == 1],
                   folder + skip);
    if (recorder.size == 1 && launched_alone)
        recorder_print(
            "only 1 rank ran, without -n and without a launcher: `%s run -n 4 ...` runs 4",
            recorder.options.invocation);

    struct text named = {0};

    if (folder[skip] == '-')
        text_add(&named, "./"); /* prevents parsing as an option */
    text_quoted(&named, folder + skip);
    if (named.bytes != NULL && !named.cut)
        recorder_print("next: %s report %s", recorder.options.invocation, named.bytes);
    text_free(&named);
}
