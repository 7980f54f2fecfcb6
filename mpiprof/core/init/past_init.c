/* Report of a program that ended without a call of MPI that the recorder saw.
 *
 * A program may define its own MPI_Init over PMPI_Init, or look MPI_Init up in the handle of a
 * library that it loads itself, as MPI.jl does. The recorder's wrapper then never runs, and nothing
 * is recorded. Or no process of the program initialises MPI. So the check runs in the destructor of
 * each process, which changes no exit code. A forked child is silent, and so is a process below the
 * program, because the program may start others later. A program that ends by a signal or by _exit,
 * as scripts of dash do, has no destructor.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "init/init.h"
#include "tracefile/tracefile.h"

static pid_t process, parent;
static time_t begun;

__attribute__((constructor)) static void begin(void)
{
    process = getpid();
    parent = getppid();
    begun = time(NULL);
}

/* Return true if this process is the program itself: its parent was started without the variables
 * of `run`. Returns false if that is unknown. */
static bool is_program(void)
{
    static const char variable[] = "MPIPROF_LIBRARY="; /* each variable ends with a zero byte */
    enum { LENGTH = sizeof variable - 1 };
    char path[40], text[256];
    size_t matched = 0;
    ssize_t length = 0;
    bool differs = false;

    if (options_variable("MPIPROF_BASE") == NULL || getppid() != parent)
        return false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)parent);
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);

    while (descriptor >= 0 && matched < LENGTH &&
           (length = read(descriptor, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < length && matched < LENGTH; i++) {
            differs = text[i] != '\0' && (differs || text[i] != variable[matched]);
            matched = text[i] == '\0' || differs ? 0 : matched + 1;
        }
    if (descriptor >= 0)
        close(descriptor);
    return descriptor >= 0 && length == 0 && matched < LENGTH;
}

static bool has_changed(int folder, const char *name)
{
    struct stat s;
    const int entry = openat(folder, name, O_PATH | O_CLOEXEC);
    const bool changed = entry >= 0 && signal_guard_file_status(entry, &s) && s.st_mtime >= begun;

    if (entry >= 0)
        close(entry);
    return changed;
}

/* Return true if a process below this one has made a trace: the folder that -o names, or a folder
 * whose name begins as MPIPROF_BASE does and that has changed since this process began. */
static bool has_trace(void)
{
    const char *const named = options_variable("MPIPROF_TRACE");
    const char *const base = options_variable("MPIPROF_BASE");
    const char *const slash = strrchr(base, '/');
    bool found = false;

    if (named != NULL && *named != '\0')
        return access(named, F_OK) == 0;
    if (slash == NULL)
        return true; /* unknown */
    char *const folder = strndup(base, (size_t)(slash - base) + 1);
    DIR *const entries = folder != NULL ? opendir(folder) : NULL;

    free(folder);
    if (entries == NULL)
        return true;
    for (const struct dirent *e; !found && (e = readdir(entries)) != NULL;)
        found = strncmp(e->d_name, slash + 1, strlen(slash + 1)) == 0 &&
                has_changed(dirfd(entries), e->d_name);
    closedir(entries);
    return found;
}

__attribute__((destructor)) static void end(void)
{
    int (*initialised)(int *) = NULL;
    int flag = 0;

    if (recorder.wrapped != NULL || process != getpid() || library_setting_rank() > 0)
        return;
    *(void **)&initialised = symbol_lookup_address("PMPI_Initialized");
    if (initialised == NULL || initialised(&flag) != MPI_SUCCESS || !flag) {
        if (options_variable("MPIPROF_QUIET") == NULL &&
            options_variable("MPIPROF_UNRECORDED") == NULL && is_program() && !has_trace())
            recorder_print("no MPI call was recorded: no process of the program called MPI_Init, "
                           "so there is no trace: check that the program uses MPI, and starts its "
                           "MPI programs on this machine and with this environment");
        return;
    }
    if (symbol_lookup_is_foreign("MPI_Init") || symbol_lookup_is_foreign("MPI_Init_thread"))
        recorder_print("the program has its own MPI_Init, which bypasses the recorder, so there is "
                       "no trace: if it contains another MPI profiler, remove that profiler");
    else
        recorder_print("the program loads the MPI library itself and calls MPI_Init by a pointer "
                       "into it (dlopen, dlsym), which bypasses the recorder, so there is no "
                       "trace: link the program with the MPI library, or look its functions up "
                       "with dlsym(RTLD_DEFAULT)");
}
