/* How the processes of a job find each other at MPI_Init, and agree on the trace folder.
 *
 *      rank 1 .. p-1  --hello-->    rank 0  --verdict-->   rank 1 .. p-1
 *      rank 1 .. p-1  --answer-->   rank 0  --together-->  rank 1 .. p-1
 *
 * In a launch of several parts some may run bare, without this library, and nothing is sent to
 * them: parts.c says who records, and where rank 0 does not, each process is on its own. Ranks of
 * one part have one command line and record alike, but for scripts that choose by rank; such a bare
 * rank would never answer a collective call. So the exchange is nonblocking, and only after every
 * rank has said hello does anything else follow.
 * After WAIT_NS rank 0 names the silent ones, and all others record without communicating, as
 * with --partial. A rank that rank 0 leaves without a verdict for longer gives up by itself, and
 * rank 0, which may be the late one, must know: so each answers, and who stays waits for the last
 * word. The communicator is the user's, the tag is one that programs hardly use; a message goes to
 * a bare process only where a script leaves rank 0 bare. O(p) small messages at rank 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder.h"

enum { BELOW_BOUND = 19936 };
enum answer { LEAVES, STAYS };
#define WAIT_NS INT64_C(10000000000)

struct verdict {
    int64_t together; /* all have answered: they may communicate */
    int64_t recording;
    int64_t agreed; /* all were given the same rules for switching */
    uint64_t job;
    char folder[PATH_BYTES];
};

/* Receives that nobody has answered; rank 0: two for each rank. They stay until MPI_Finalize: what
 * comes late must not meet a receive of the program's that takes anything from anyone. */
static MPI_Request *left;
static int left_count;
static int tag = BELOW_BOUND;
static bool by_itself; /* partial without having been asked to be */

static bool wait_until(MPI_Request *request, int64_t deadline)
{
    const struct timespec pause = {.tv_nsec = 100000};
    int done = 0;

    for (int tries = 0; !done; tries++) {
        pmpi.Test(request, &done, MPI_STATUS_IGNORE);
        if (!done && now_ns() > deadline)
            return false;
        if (!done && tries > 1000)
            nanosleep(&pause, NULL);
    }
    return true;
}

/* Whether this job is the first to write to a folder, which rank 0 asks for all: two that start at
 * once would each have some of the ranks. A second program of one job finds its own name. */
static bool is_ours(const char *folder)
{
    const char *const job = recorder.options.job;
    char path[PATH_BYTES + 8], other[PATH_BYTES];

    snprintf(path, sizeof path, "%s/.job", folder);
    if (job[0] == '\0' || symlink(job, path) == 0 || errno != EEXIST)
        return true;
    const ssize_t length = readlink(path, other, sizeof other);

    return length == (ssize_t)strlen(job) && memcmp(other, job, (size_t)length) == 0;
}

static void make_folder(struct verdict *v)
{
    const struct options *const o = &recorder.options;

    v->recording = !o->unrecorded && file_make_folder(v->folder, o->trace, o->base);
    const int reason = errno;

    v->job = hash_mix((uint64_t)time(NULL) << 20 ^ (uint64_t)getpid(), (uint64_t)now_ns());
    if (!v->recording && !o->unrecorded)
        recorder_say("cannot make the trace folder %s: %s; the program runs unrecorded", v->folder,
                     strerror(reason));
    if (v->recording && !o->partial && !is_ours(v->folder)) {
        v->recording = 0;
        recorder_say("another job writes to %s: the program runs unrecorded; name another folder "
                     "with -o",
                     v->folder);
    }
}

static void say_silent(int size)
{
    char list[200] = "";
    int missing = 0;

    for (int i = 1; i < size; i++)
        if (left[2 * i] != MPI_REQUEST_NULL) {
            const size_t length = strlen(list);

            if (length < sizeof list - 20)
                snprintf(list + length, sizeof list - length, "%s%d", missing > 0 ? ", " : "", i);
            missing++;
        }
    recorder_say("%d of %d ranks have not answered for 10 s (%s): clocks stay unsynchronised; if "
                 "they run without mpiprof, give --partial",
                 missing, size, list);
    snprintf(recorder.note, sizeof recorder.note, "%d of %d ranks have not answered: %s", missing,
             size, list);
}

/* Their hellos are in: the places of those receives serve for the sends. */
static void tell(MPI_Comm comm, int size, const void *what, size_t bytes, const bool *to)
{
    for (int i = 1; i < size; i++)
        if (to[i])
            pmpi.Isend(what, (int)bytes, MPI_BYTE, i, tag, comm, &left[2 * i]);
    for (int i = 1; i < size; i++)
        if (to[i])
            pmpi.Wait(&left[2 * i], MPI_STATUS_IGNORE);
}

/* Rank 0, when all have said hello: some may have given up since. Each says so, or that it stays.
 */
static bool all_stay(MPI_Comm comm, int size, const int64_t *words, bool *to)
{
    int64_t together = 1;

    for (int i = 1; i < size; i++) {
        wait_until(&left[2 * i + 1], INT64_MAX);
        to[i] = words[2 * i + 1] == STAYS;
        together &= to[i];
    }
    tell(comm, size, &together, sizeof together, to);
    return together != 0;
}

/* Rank 0: hear all that may record, then tell all that were heard. */
static bool lead(MPI_Comm comm, int size, bool several, struct verdict *v)
{
    const int64_t deadline = now_ns() + WAIT_NS;
    const size_t used = offsetof(struct verdict, folder) + strlen(v->folder) + 1;
    int64_t *const words = calloc(2 * (size_t)size, sizeof *words); /* hello and answer of each */
    bool *const here = calloc((size_t)size, sizeof *here);
    const int64_t own = fingerprint();
    int heard = 1, known = 1;

    left = calloc(2 * (size_t)size, sizeof *left);
    if (left == NULL || words == NULL || here == NULL)
        return false;
    left_count = 2 * size;
    for (int i = 1; i < size; i++)
        here[i] = true;
    if (several)
        parts_find(here, size);
    for (int i = 0; i < left_count; i++)
        if (!here[i / 2])
            left[i] = MPI_REQUEST_NULL;
        else
            pmpi.Irecv(&words[i], sizeof *words, MPI_BYTE, i / 2, tag, comm, &left[i]);
    for (int i = 1; i < size; i++) {
        known += here[i];
        here[i] = here[i] && wait_until(&left[2 * i], deadline);
        heard += here[i];
        v->agreed &= !here[i] || words[2 * i] == own;
    }
    v->together = heard == size;
    tell(comm, size, v, used, here);
    if (v->together)
        v->together = all_stay(comm, size, words, here);
    else if (heard < known)
        say_silent(size);
    if (v->together)
        parts_end(size);
    free(here);
    return true; /* `words` stays: a late message must not find freed memory */
}

/* A number that all processes of a partial job agree on without a message: from the folder. */
static uint64_t job_of_folder(const char *folder)
{
    uint64_t h = 7;

    for (; *folder != '\0'; folder++)
        h = hash_mix(h, (uint64_t)(unsigned char)*folder);
    return h;
}

static void follow(MPI_Comm comm, int rank, struct verdict *v)
{
    /* Rank 0 gives up after WAIT_NS and then tells us; wait a little longer for that. Static: a
     * verdict that comes later still must have somewhere to go. */
    static int64_t hello, answer, together;
    static struct verdict late;
    static MPI_Request told;
    MPI_Request sent;

    hello = fingerprint();
    pmpi.Irecv(&late, sizeof late, MPI_BYTE, 0, tag, comm, &told);
    pmpi.Isend(&hello, sizeof hello, MPI_BYTE, 0, tag, comm, &sent);
    const bool heard = wait_until(&told, now_ns() + WAIT_NS + WAIT_NS / 4);

    pmpi.Request_free(&sent);
    if (heard && !late.together) {
        *v = late;
        return;
    }
    answer = heard ? STAYS : LEAVES;
    pmpi.Isend(&answer, sizeof answer, MPI_BYTE, 0, tag, comm, &sent);
    pmpi.Request_free(&sent);
    if (heard) {
        *v = late;
        pmpi.Irecv(&together, sizeof together, MPI_BYTE, 0, tag, comm, &told);
        wait_until(&told, INT64_MAX);
        v->together = together;
        return;
    }
    left = &told;
    left_count = 1;
    if (rank == 1)
        recorder_say("rank 0 has not answered for 10 s: clocks stay unsynchronised; if it runs "
                     "without mpiprof, give --partial");
    make_folder(v);
    v->together = 0;
}

/* In MPI_Finalize, or before the program may free the communicator. */
void join_end(void)
{
    for (int i = 0; i < left_count; i++)
        if (left[i] != MPI_REQUEST_NULL) {
            pmpi.Cancel(&left[i]);
            pmpi.Request_free(&left[i]);
        }
    left_count = 0;
}

/* Not the same number in each program, as the bound is the library's. */
static void choose_tag(MPI_Comm comm)
{
    int *bound = NULL, found = 0;

    if (pmpi.Comm_get_attr(comm, MPI_TAG_UB, &bound, &found) == MPI_SUCCESS && found &&
        *bound > BELOW_BOUND)
        tag = *bound - BELOW_BOUND;
}

/* Agrees on the folder among the members of a communicator; false: nothing is recorded. On
 * return recorder.options.partial says whether the members may communicate. */
bool recorder_join(MPI_Comm comm, int rank, int size, bool with_world)
{
    struct options *const o = &recorder.options;
    struct verdict v = {.together = 1, .agreed = 1};
    const bool several = !o->partial && size > 1 && parts_several(with_world);

    if (o->partial || (several && (!with_world || (rank > 0 && !parts_leader())))) {
        o->partial = true;
        if (several && o->trace[0] == '\0')
            o->trace = o->alone;
        make_folder(&v);
        v.together = 0;
    } else {
        choose_tag(comm);
        if (rank > 0)
            follow(comm, rank, &v);
        else {
            make_folder(&v);
            if (!lead(comm, size, several, &v))
                v.recording = 0;
        }
    }
    by_itself = several && v.together == 0;
    o->partial = v.together == 0;
    recorder.agreed = v.agreed != 0;
    recorder.job = v.together != 0 ? v.job : job_of_folder(v.folder);
    memcpy(recorder.folder, v.folder, sizeof recorder.folder);
    return v.recording != 0;
}

/* After the start: what goes without saying where it was asked for. */
void join_say(void)
{
    if (by_itself && recorder.speaks)
        recorder_say(
            "this launch has several parts, of which some may run without mpiprof: nothing "
            "is sent between processes (clocks stay unsynchronised, nothing is switched); "
            "if all run with it, give each of them --together");
}
