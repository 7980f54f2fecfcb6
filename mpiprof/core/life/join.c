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
 *
 * Under Sessions alone there is no communicator of all: each that is made from a group begins like
 * this, so that its members know of each other that they switch alike. Some may have begun before,
 * in a folder of their own; those that begin with them take rank 0's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/common.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "life/fingerprint.h"
#include "life/join.h"
#include "life/parts.h"
#include "trace/folder.h"

enum { BELOW_BOUND = 19936 };
enum answer { LEAVES, STAYS };
#define WAIT_NS INT64_C(10000000000)

enum { RECORDING = 1, BEGUN = 2 };
#define HELLO_BEGUN INT64_C(1)
#define HELLO_LACKS INT64_C(2)
struct verdict {
    int64_t together; /* all have answered: they may communicate */
    int64_t state;    /* RECORDING: there is a folder; BEGUN: some have begun before */
    int64_t agreed;   /* all were given the same rules for switching */
    uint64_t job;
    char folder[PATH_BYTES];
};

/* One meeting. Receives that nobody has answered stay until MPI_Finalize, with what they write to:
 * what comes late must not meet a receive of the program's that takes anything from anyone. */
struct meeting {
    struct meeting *next;
    MPI_Request *left; /* rank 0: two for each rank; the others: one */
    int count;
    int64_t *words; /* rank 0: hello and answer of each */
    int64_t hello, answer, together;
    struct verdict verdict;
    MPI_Request told;
};
static struct meeting *unanswered; /* under recorder.lock */
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

    const bool made = !o->unrecorded && folder_make_unique(v->folder, o->trace, o->base);
    const int reason = errno;

    v->state = made ? RECORDING : 0;

    v->job = hash_mix((uint64_t)time(NULL) << 20 ^ (uint64_t)getpid(), (uint64_t)now_ns());
    if (!made && !o->unrecorded)
        recorder_say("cannot make the trace folder %s: %s; the program runs unrecorded", v->folder,
                     strerror(reason));
    if (made && !o->partial && !is_ours(v->folder)) {
        v->state = 0;
        recorder_say("another job writes to %s: the program runs unrecorded; name another folder "
                     "with -o",
                     v->folder);
    }
}

static void leave_unrecorded(struct verdict *v, int lacking, int size)
{
    if (v->state & RECORDING)
        recorder_say("%d of %d ranks have less than %d MB of address space left (ulimit -v): the "
                     "program runs unrecorded",
                     lacking, size, MEMORY_LEFT_MB);
    v->state &= ~RECORDING;
}

static void say_silent(const struct meeting *m, int size)
{
    char list[200] = "";
    int missing = 0;

    for (int i = 1; i < size; i++)
        if (m->left[2 * i] != MPI_REQUEST_NULL) {
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
static void tell(struct meeting *m, MPI_Comm comm, int size, const void *what, size_t bytes,
                 const bool *to)
{
    for (int i = 1; i < size; i++)
        if (to[i])
            pmpi.Isend(what, (int)bytes, MPI_BYTE, i, tag, comm, &m->left[2 * i]);
    for (int i = 1; i < size; i++)
        if (to[i])
            pmpi.Wait(&m->left[2 * i], MPI_STATUS_IGNORE);
}

/* Rank 0, when all have said hello: some may have given up since. Each says so, or that it stays.
 */
static bool all_stay(struct meeting *m, MPI_Comm comm, int size, bool *to)
{
    int64_t together = 1;

    for (int i = 1; i < size; i++) {
        wait_until(&m->left[2 * i + 1], INT64_MAX);
        to[i] = m->words[2 * i + 1] == STAYS;
        together &= to[i];
    }
    tell(m, comm, size, &together, sizeof together, to);
    return together != 0;
}

/* What a process says of itself: the last bit, whether it has begun before; the one before that,
 * whether it lacks memory. One that records nothing is like no other. */
static int64_t hello_of(bool begun, bool lacks)
{
    const int64_t own = !begun || atomic_load(&recorder.active) ? fingerprint() : 0;

    return (own & ~(HELLO_BEGUN | HELLO_LACKS)) | (begun ? HELLO_BEGUN : 0) |
           (lacks ? HELLO_LACKS : 0);
}

/* Whether the process has so little address space left (`ulimit -v`) that what recording takes of it
 * would soon end the program: libraries end it where they get none. */
static bool lacks_memory(void)
{
    return !memory_had() || !memory_is_left(0);
}

/* Rank 0: hear all that may record, then tell all that were heard. */
static bool lead(struct meeting *m, MPI_Comm comm, int size, bool several, struct verdict *v)
{
    const int64_t deadline = now_ns() + WAIT_NS;
    const size_t used = offsetof(struct verdict, folder) + strlen(v->folder) + 1;
    bool *const here = memory_get((size_t)size * sizeof *here);
    int heard = 1, known = 1, lacking = (m->hello & HELLO_LACKS) != 0;

    m->words = memory_get(2 * (size_t)size * sizeof *m->words);
    m->left = memory_get(2 * (size_t)size * sizeof *m->left);
    if (m->left == NULL || m->words == NULL || here == NULL) {
        memory_free(here);
        return false;
    }
    m->count = 2 * size;
    for (int i = 1; i < size; i++)
        here[i] = true;
    if (several)
        parts_find(here, size);
    for (int i = 0; i < m->count; i++)
        if (!here[i / 2])
            m->left[i] = MPI_REQUEST_NULL;
        else
            pmpi.Irecv(&m->words[i], sizeof *m->words, MPI_BYTE, i / 2, tag, comm, &m->left[i]);
    for (int i = 1; i < size; i++) {
        known += here[i];
        here[i] = here[i] && wait_until(&m->left[2 * i], deadline);
        heard += here[i];
        v->agreed &= !here[i] || (m->words[2 * i] ^ m->hello) >> 2 == 0;
        v->state |= here[i] && (m->words[2 * i] & HELLO_BEGUN) ? BEGUN : 0;
        lacking += here[i] && (m->words[2 * i] & HELLO_LACKS);
    }
    if (lacking > 0)
        leave_unrecorded(v, lacking, size);
    v->together = heard == size;
    tell(m, comm, size, v, used, here);
    if (v->together)
        v->together = all_stay(m, comm, size, here);
    else if (heard < known)
        say_silent(m, size);
    if (v->together)
        parts_end(size);
    memory_free(here);
    return true;
}

/* A number that all processes of a partial job agree on without a message: from the folder. */
static uint64_t job_of_folder(const char *folder)
{
    return hash_text(7, folder, -1);
}

static void follow(struct meeting *m, MPI_Comm comm, int rank, struct verdict *v)
{
    struct verdict *const said = &m->verdict;
    MPI_Request sent;

    /* Rank 0 gives up after WAIT_NS and then tells us; wait a little longer for that. */
    pmpi.Irecv(said, sizeof *said, MPI_BYTE, 0, tag, comm, &m->told);
    pmpi.Isend(&m->hello, sizeof m->hello, MPI_BYTE, 0, tag, comm, &sent);
    const bool heard = wait_until(&m->told, now_ns() + WAIT_NS + WAIT_NS / 4);

    pmpi.Request_free(&sent);
    if (heard && !said->together) {
        *v = *said;
        return;
    }
    m->answer = heard ? STAYS : LEAVES;
    pmpi.Isend(&m->answer, sizeof m->answer, MPI_BYTE, 0, tag, comm, &sent);
    pmpi.Request_free(&sent);
    if (heard) {
        *v = *said;
        pmpi.Irecv(&m->together, sizeof m->together, MPI_BYTE, 0, tag, comm, &m->told);
        wait_until(&m->told, INT64_MAX);
        v->together = m->together;
        return;
    }
    m->left = &m->told;
    m->count = 1;
    if (rank == 1)
        recorder_say("rank 0 has not answered for 10 s: clocks stay unsynchronised; if it runs "
                     "without mpiprof, give --partial");
    v->together = 0;
}

/* In MPI_Finalize, or before the program may free the communicator. What a message may still come
 * to is not freed. */
void join_end(void)
{
    recorder_lock();
    struct meeting *m = unanswered;

    unanswered = NULL;
    recorder_unlock();
    for (; m != NULL; m = m->next)
        for (int i = 0; i < m->count; i++)
            if (m->left[i] != MPI_REQUEST_NULL) {
                pmpi.Cancel(&m->left[i]);
                pmpi.Request_free(&m->left[i]);
            }
}

/* Not the same number in each program, as the bound is the library's. */
static void choose_tag(MPI_Comm comm)
{
    int *bound = NULL, found = 0;

    if (pmpi.Comm_get_attr(comm, MPI_TAG_UB, &bound, &found) == MPI_SUCCESS && found &&
        *bound > BELOW_BOUND)
        tag = *bound - BELOW_BOUND;
}

/* All members come here; false: this one has no memory. */
static bool meet(MPI_Comm comm, int rank, int size, bool several, bool begun, struct verdict *v)
{
    struct meeting *const m = memory_get(sizeof *m);

    if (m == NULL)
        return false;
    m->hello = hello_of(begun, !begun && lacks_memory());
    v->state |= begun ? BEGUN : 0;
    v->agreed = begun ? atomic_load(&recorder.active) : 1;
    choose_tag(comm);
    const bool met = rank > 0 || lead(m, comm, size, several, v);

    if (rank > 0)
        follow(m, comm, rank, v);
    if (v->together != 0) {
        memory_free(m->words);
        memory_free(rank == 0 ? m->left : NULL);
        memory_free(m);
        return met;
    }
    recorder_lock(); /* its memory stays: a late message must not find another's */
    m->next = unanswered;
    unanswered = m;
    recorder_unlock();
    return met;
}

/* Agrees on the folder among the members of a communicator; false: nothing is recorded. On
 * return recorder.options.partial says whether the members may communicate. */
bool join_start(MPI_Comm comm, int rank, int size, bool with_world)
{
    struct options *const o = &recorder.options;
    struct verdict v = {.together = 1, .agreed = 1};
    const bool several = !o->partial && size > 1 && parts_several(with_world);
    bool met = false;

    if (o->partial || (several && (!with_world || (rank > 0 && !parts_leader())))) {
        o->partial = true;
        if (several && o->trace[0] == '\0')
            o->trace = o->alone;
        v.together = 0;
    } else {
        if (rank == 0)
            make_folder(&v);
        met = meet(comm, rank, size, several, false, &v);
    }
    if (rank == 0 && !met && !o->partial) /* no memory */
        v.state = 0;
    else if (v.folder[0] == '\0')
        make_folder(&v);
    if (v.together == 0 && lacks_memory()) /* each for itself */
        leave_unrecorded(&v, 1, 1);
    by_itself = several && v.together == 0;
    o->partial = v.together == 0;
    recorder.agreed = v.agreed != 0;
    recorder.begun_apart = (v.state & BEGUN) != 0;
    recorder.job = v.together != 0 ? v.job : job_of_folder(v.folder);
    memcpy(recorder.folder, v.folder, sizeof recorder.folder);
    return (v.state & RECORDING) != 0;
}

/* Under Sessions alone, of another communicator from a group, when this process has begun: whether
 * its members know of each other that they switch alike. */
bool join_again(MPI_Comm comm)
{
    struct verdict v = {.together = 1, .job = recorder.job};
    int rank = 0, size = 1;

    if (recorder.options.partial)
        return false;
    pmpi.Comm_rank(comm, &rank);
    pmpi.Comm_size(comm, &size);
    v.state = atomic_load(&recorder.active) ? RECORDING : 0;
    memcpy(v.folder, recorder.folder, sizeof v.folder);
    const bool met = meet(comm, rank, size, false, true, &v);

    join_end();
    return met && v.together != 0 && v.agreed != 0;
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
