/* Creates and opens files with the recorder's functions for the trace folder (tracefile/folder.c):
 *
 *   tracefile_folder make FOLDER
 *   tracefile_folder new|shared|append|mark FOLDER NAME
 *
 * Prints "done", or the reason for a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/recorder.h"
#include "tracefile/tracefile.h"

static bool write_to(int file)
{
    return file >= 0 && write(file, "ours", 4) == 4 && close(file) == 0;
}

int main(int argc, char **argv)
{
    const char *const way = argv[1], *const folder = argv[2], *const name = argv[argc - 1];
    bool done;

    if (strcmp(way, "make") == 0)
        done = folder_create(folder);
    else if (strcmp(way, "mark") == 0)
        done = folder_add_mark(folder, name, "ours");
    else if (strcmp(way, "new") == 0)
        done = write_to(folder_open(folder, name, O_RDWR | O_CREAT | O_EXCL));
    else if (strcmp(way, "shared") == 0)
        done = write_to(folder_open(folder, name, O_WRONLY | O_CREAT));
    else
        done = write_to(folder_open(folder, name, O_WRONLY | O_CREAT | O_APPEND));
    printf("%s\n", done ? "done" : folder_error(errno));
    return 0;
}
