/* Metadata written once at the start: meta.json, and the process's line in its tables. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pmpi.h"
#include "base/recorder.h"
#include "tracefile/tracefile.h"

enum { VERSION_BYTES = 8200 }; /* more than any MPI_MAX_LIBRARY_VERSION_STRING */

const char *meta_library(void)
{
    static char version[512]; /* its first line */
    char *const all = version[0] == '\0' ? memory_allocate(VERSION_BYTES) : NULL;
    int length = 0;

    if (all != NULL && pmpi.Get_library_version(all, &length) == MPI_SUCCESS)
        snprintf(version, sizeof version, "%.*s", (int)strcspn(all, "\n"), all);
    memory_free(all);
    for (char *s = version; *s != '\0'; s++)
        if (*s == '\t')
            *s = ' ';
    return version;
}

void meta_timestamp(char *stamp, size_t room)
{
    const time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(stamp, room, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* Return the number of this process's threads, or 0 if it is unknown. */
int meta_thread_count(void)
{
    const int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat s;
    const bool known = tasks >= 0 && signal_guard_file_status(tasks, &s);

    if (tasks >= 0)
        close(tasks);
    return known && s.st_nlink > 2 ? (int)s.st_nlink - 2 : 0; /* without "." and ".." */
}

/* Add the limit of the control group as a number of processors, and the number of processors of the
 * node. */
static void processor_limit_add(struct text *t)
{
    struct control_group group;

    if (control_group_find(&group)) {
        text_add(t, ", \"quota\": {\"processors\": %.3f, \"group\": ",
                 (double)group.quota_us / (double)group.period_us);
        text_json(t, group.path.bytes, -1);
        text_add(t, "}");
    }
    text_free(&group.path);
    text_add(t, ", \"threads\": %d, \"node_processors\": %ld", meta_thread_count(),
             sysconf(_SC_NPROCESSORS_ONLN));
}

/* Write the first line of a rank's tables, which identifies the process. */
void meta_write_process(const char *host, const char *node)
{
    struct text t = {0};
    char stamp[32];

    meta_timestamp(stamp, sizeof stamp);
    text_add(&t, "{\"rank\": %d, \"process\": {\"host\": ", recorder.rank);
    text_json(&t, host, -1);
    text_add(&t, ", \"pid\": %d, \"node\": ", (int)getpid());
    text_json(&t, node, -1);
    text_add(&t, ", \"log\": ");
    text_json(&t, file_name, -1);
    text_add(&t, ", \"processors\": [");
    affinity_start(&t);
    text_add(&t, "], \"started_ns\": %lld, \"started\": \"%s\", \"size\": %d, \"abi\": \"%s\", ",
             (long long)now_ns(), stamp, recorder.size, ABI_NAME);
    text_add(&t, "\"mpi\": ");
    text_json(&t, meta_library(), -1);
    library_setting_write_topology(&t);
    processor_limit_add(&t);
    library_setting_write_threads(&t);
    text_add(&t, "}}\n");
    file_write_line(&t);
    text_free(&t);
}

/* Add the settings that affect the library's selection of algorithms, if they can be queried. */
static void library_add(struct text *t)
{
    struct text settings = {0};
    int level = MPI_THREAD_MULTIPLE;

    if (pmpi.Query_thread != NULL)
        pmpi.Query_thread(&level);
    library_setting_read(&settings, meta_library());
    text_add(t, "\"library\": {\"on_node\": %d, \"multiple\": %s, \"settings\": {%s}}, ",
             library_setting_node_processes(), level == MPI_THREAD_MULTIPLE ? "true" : "false",
             settings.length > 0 && !settings.cut ? settings.bytes : "");
    text_free(&settings);
}

/* Return --messages as it takes effect: a ring and a summary have no records of single messages. */
static const char *message_option(const struct options *o)
{
    if (strcmp(o->messages, "off") == 0)
        return "off";
    if (o->summary || o->ring > 0 || strcmp(o->messages, "sums") == 0)
        return "sums";
    return strcmp(o->messages, "all") == 0 ? "all" : "auto";
}

/* Write meta.json. Returns true if this process created it. */
bool meta_write_run(bool with_world, const struct text *machine, const char *skipped)
{
    const struct options *const o = &recorder.options;
    MPI_Comm parent = MPI_COMM_NULL; /* of a job that MPI_Comm_spawn started */
    char stamp[32];
    struct text t = {0};

    meta_timestamp(stamp, sizeof stamp);
    text_add(&t, "{\"format\": \"mpiprof trace\", \"version\": 1, \"mpiprof\": ");
    text_json(&t, o->version, -1);
    text_add(&t, ", \"program\": ");
    text_json(&t, o->program, -1);
    if (o->commit[0] != '\0') {
        text_add(&t, ", \"commit\": ");
        text_json(&t, o->commit, -1);
    }
    text_add(&t, ", \"command\": %s, \"mpi\": ", o->command);
    text_json(&t, meta_library(), -1);
    text_add(&t, ", \"abi\": \"%s\", \"ranks\": %d, \"job\": \"%016llx\", \"started\": \"%s\", ",
             ABI_NAME, recorder.size, (unsigned long long)recorder.job, stamp);
    text_add(&t, "\"record\": \"%s\", \"sample\": %u, ",
             o->summary    ? "summary"
             : o->ring > 0 ? "ring"
                           : "events",
             o->summary ? 1 : o->sample); /* a summary counts all calls */
    text_add(&t,
             "\"options\": {\"stack\": %d, \"partial\": %s, \"sessions\": %s, \"limit\": %lld, "
             "\"ring\": %lld, \"totals\": %s, \"messages\": \"%s\"}, ",
             o->stack, o->partial ? "true" : "false", with_world ? "false" : "true",
             (long long)o->limit, (long long)o->ring, o->totals ? "true" : "false",
             message_option(o));
    if (with_world && pmpi.Comm_get_parent != NULL &&
        pmpi.Comm_get_parent(&parent) == MPI_SUCCESS &&
        parent != MPI_COMM_NULL) /* entry into MPI_Init: during the parents' spawn call */
        text_add(&t, "\"spawned_ns\": %lld, ", (long long)recorder.entered_ns);
    if (with_world)
        library_add(&t);
    text_add(&t, "\"machine\": %s, ", machine->length > 0 ? machine->bytes : "null");
    text_add(&t, "\"skipped\": [%s]}\n", skipped);
    checksum_close(&t);
    const int descriptor = folder_open(recorder.folder, "meta.json", O_WRONLY | O_CREAT | O_EXCL);

    if (descriptor >= 0) { /* otherwise another process of a partial job has written it */
        if (!file_write(descriptor, &t))
            recorder_print("cannot write %s/meta.json: %s", recorder.folder, strerror(errno));
        close(descriptor);
    }
    text_free(&t);
    return descriptor >= 0;
}
