/* Totals of samples before each call site (--where).
 *
 * Samples are stored until the thread enters a call, which may be one on messages, and belong to
 * the interval between the last call and this one. They are stored further until the thread calls
 * a collective, and then added to its call site. Samples taken within a call are discarded. The
 * totals are written to the tables after every thousand samples and in MPI_Finalize; readers add
 * the rows of the same stack, interval and call site. A few stacks have most of the time, so
 * samples that exceed the tables are dropped.
 */

#include "record/call.h"
#include "tracefile/tracefile.h"

enum { MOST_RECENT = 512, MOST_PAIRS = 8192, MOST_TRIED = 16, WRITE_EVERY = 1024 };

struct sample_time {
    uint32_t place, after, site; /* between two collectives; after is 0 at the start */
    uint32_t left, entered;      /* shapes of the calls around it */
    uint32_t samples;
    int64_t ns;
};

bool presite_sample_is_on;
static SPARSE struct sample_time recent[MOST_RECENT]; /* since the last collective */
static struct sample_time *pairs;                     /* totals */
static int recent_count, split_count; /* all, and those before the last call, which come first */
static uint32_t unwritten_samples, last_site;
static const struct thread *owner; /* the sampled thread, which called MPI_Init */
static int64_t last_ns, left_ns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the recent samples */

/* Return the recent samples at a place between two calls, from an index on. */
static struct sample_time *recent_find(int i, uint32_t place, uint32_t left, uint32_t entered)
{
    while (i < recent_count &&
           (recent[i].place != place || recent[i].left != left || recent[i].entered != entered))
        i++;
    if (i == MOST_RECENT)
        return NULL;
    if (i == recent_count)
        recent[recent_count++] =
            (struct sample_time){.place = place, .left = left, .entered = entered};
    return &recent[i];
}

static void sample_add(struct sample_time *to, const struct sample_time *t)
{
    to->samples += t->samples;
    to->ns += t->ns;
}

/* Add the samples since the last call to the interval between two calls. */
static void recent_split(uint32_t left, uint32_t entered)
{
    const int count = recent_count;

    for (int i = split_count; i < count; i++) {
        const struct sample_time t = recent[i];

        recent_count = split_count; /* a place that has been read is free */
        struct sample_time *const to = recent_find(0, t.place, left, entered);

        if (to != NULL)
            sample_add(to, &t);
        split_count = recent_count;
    }
}

static void sample_found(struct site *place, int64_t at, int64_t ns)
{
    lock_acquire(&lock);
    const int64_t since = last_ns > left_ns ? last_ns : left_ns;
    /* Kernel samples are processed after the next call was entered, so this test excludes them. */
    const bool within = ns == 0 && __atomic_load_n(&owner->call, __ATOMIC_RELAXED) != NULL;
    struct sample_time *const t =
        at > left_ns && !within ? recent_find(split_count, place->id, 0, 0) : NULL;

    last_ns = at;
    if (t != NULL) {
        t->samples++;
        t->ns += ns > 0 ? ns : at - since;
    }
    lock_release(&lock);
}

static struct sample_time *pair_find(const struct sample_time *recent_one, uint32_t site)
{
    const struct sample_time wanted = {.place = recent_one->place,
                                       .after = last_site,
                                       .site = site,
                                       .left = recent_one->left,
                                       .entered = recent_one->entered};
    const uint64_t hash = hash_mix(hash_mix(hash_mix(wanted.place, last_site), site),
                                   hash_mix(wanted.left, wanted.entered));

    for (uint64_t i = 0; i < MOST_TRIED; i++) {
        struct sample_time *const t = &pairs[(hash + i) % MOST_PAIRS];

        if (t->site == 0)
            *t = wanted;
        if (t->place == wanted.place && t->after == last_site && t->site == site &&
            t->left == wanted.left && t->entered == wanted.entered)
            return t;
    }
    return NULL;
}

static void write_all(void)
{
    for (int i = 0; i < MOST_PAIRS; i++) {
        struct sample_time *const p = &pairs[i];
        struct text t = {0};

        if (p->samples == 0)
            continue;
        text_add(&t, "{\"rank\": %d, \"where\": {\"site\": %u, \"after\": %u, \"before\": %u, ",
                 recorder.rank, p->place, p->after, p->site);
        text_add(&t, "\"left\": %u, \"entered\": %u, \"samples\": %u, \"ns\": %lld}}\n", p->left,
                 p->entered, p->samples, (long long)p->ns);
        file_write_line(&t);
        text_free(&t);
        p->samples = 0;
        p->ns = 0;
    }
    unwritten_samples = 0;
}

/* Add the samples since the last call, of a shape, to the interval until a call on messages. */
void presite_sample_split(uint32_t left, uint32_t entered)
{
    if (owner != &self)
        return;
    sampler_drain(left_ns);
    lock_acquire(&lock);
    recent_split(left, entered);
    lock_release(&lock);
}

/* Add the samples since the last collective to the site of a collective that begins. */
void presite_sample_entered(const struct site *site, uint32_t left, uint32_t entered)
{
    if (owner != &self)
        return;
    sampler_drain(left_ns);
    lock_acquire(&lock);
    recent_split(left, entered);
    for (int i = 0; i < recent_count; i++) {
        struct sample_time *const p = pair_find(&recent[i], site->id);

        unwritten_samples += recent[i].samples;
        if (p != NULL)
            sample_add(p, &recent[i]);
    }
    recent_count = split_count = 0;
    last_site = site->id;
    lock_release(&lock);
    if (unwritten_samples >= WRITE_EVERY)
        write_all();
}

/* Discard samples taken during the call. */
void presite_sample_left(void)
{
    if (owner != &self)
        return;
    lock_acquire(&lock);
    recent_count = split_count;
    left_ns = now_ns();
    lock_release(&lock);
}

static const char *sampling_start(void)
{
    if (record_is_summed())
        return "--record summary stores no samples";
    owner = &self;
    left_ns = now_ns();
    pairs = memory_allocate(MOST_PAIRS * sizeof *pairs);
    return pairs != NULL ? sampler_start(sample_found) : "no memory";
}

void presite_sample_start(void)
{
    const char *const why = recorder.options.where ? sampling_start() : "";

    presite_sample_is_on = why == NULL;
    if (why != NULL && why[0] != '\0')
        file_write_note("--where: no samples: %s", why);
}

/* Stop sampling, on the thread of MPI_Finalize, after recording has ended. */
void presite_sample_end(void)
{
    if (!presite_sample_is_on)
        return;
    presite_sample_is_on = false;
    sampler_stop();
    write_all();
}
