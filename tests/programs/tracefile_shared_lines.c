/* All ranks of a node write lines to shared tables (core/tracefile/file.c), without MPI.
 *
 *     tracefile_shared_lines FOLDER RANKS LINES
 *
 * Linked with tracefile_short_writes.c. The last rank is killed when half of its middle line is
 * written. After all have ended, another process writes one line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/recorder.h"
#include "tracefile/tracefile.h"

extern int short_writes_left; /* of tracefile_short_writes.c */

static bool start(const char *folder, int rank)
{
    recorder.rank = rank;
    return file_open(folder, rank, "host");
}

static void write_lines(int lines, bool dies)
{
    for (int i = 0; i < lines; i++) {
        if (dies && i == lines / 2)
            short_writes_left = 1;
        file_write_note("line %d", i);
    }
    file_close();
}

int main(int count, char **words)
{
    const int ranks = count > 3 ? atoi(words[2]) : 0, lines = count > 3 ? atoi(words[3]) : 0;
    int failed = 0, killed = 0, status;

    for (int rank = 0; rank < ranks; rank++)
        if (fork() == 0) {
            if (!start(words[1], rank))
                _exit(1);
            write_lines(lines, rank == ranks - 1);
            _exit(atomic_load(&recorder.stopped));
        }
    while (wait(&status) > 0) {
        failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
        killed += WIFSIGNALED(status);
    }
    if (!start(words[1], ranks))
        return 1;
    write_lines(1, false);
    return failed == 0 && killed == 1 ? 0 : 1;
}
