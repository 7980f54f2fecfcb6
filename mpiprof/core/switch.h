/* Running one of the catalogue's algorithms in place of the library's: what the parts share.
 *
 *   select.c   which algorithm, by what all members know
 *   rules.c    what people wish
 *   remarks.c  what is said of it at the end
 *   key.c      which instances share a choice, where it depends on the call site
 *   private.c  the private communicator
 *   room.c     how many of those there may be
 *   valid.c    whether a call's arguments are what the library accepts
 *   stage.c    the user's buffers as the schedule sees them
 *   device.c   buffers that the host may not touch
 *   scratch.c  the memory for that, and for algorithms
 *   execute.c  the schedule's rounds, with point-to-point calls
 */
#pragma once
#include "recorder.h"
#include "schedule.h"

/* The user's places of a side's data, block after block. */
struct blocks {
    char *base;
    int count;   /* of blocks */
    bool v;      /* counts and displacements by block */
    bool device; /* the library alone may touch it */
    const struct side *side;
};
struct place { /* one of them */
    char *at;
    int64_t count;
    MPI_Datatype type;
};

struct lack { /* a part of staged OUT that has not come */
    struct lack *next;
    const char *at;
};

/* One call that runs on a schedule. Lives on the caller's stack; its memory is the
 * communicator's. */
struct execution {
    struct call *call;
    const struct arguments *arguments;
    const struct algorithm *algorithm;
    struct problem problem;
    struct context context;
    MPI_Comm comm; /* private: of the communicator's members, an inter-communicator's merged */
    int remote_first, own_first; /* ranks of the groups within comm */
    int tag;
    char *buffers[3]; /* IN, OUT, SCRATCH */
    bool reduces;     /* then buffers are in the type's own layout: */
    MPI_Datatype type;
    MPI_Op op;
    int64_t unit, extent; /* bytes of an element: as counted by the schedule, and in memory */
    int64_t lower;        /* where an element's data begins */
    int64_t span;         /* from its first byte to its last */
    bool solid;           /* which then has no gaps */
    bool unpack;          /* OUT is staged */
    bool to_device;       /* the result of a reduction is */
    bool joined;          /* IN is a part of OUT: */
    int64_t in_at;        /* where in OUT it begins */
    bool by_block;        /* messages are whole blocks; IN and OUT, where they are not packed: */
    struct blocks blocks[2];
    bool own_differs;   /* sizes do, of what this rank sends to itself and expects */
    struct lack *lacks; /* where parts of OUT have not come */
    bool called_off;    /* all members will know, and run the library's own */
    int error;          /* the first */
};

/* ---- rules.c */

enum { RULE_NONE = -1 };
struct rule {
    const char *operation, *algorithm;
    const char *label;         /* the algorithm with its parameters */
    const char *sizes;         /* of communicators: 4-8,16-16; NULL: any */
    const char *site, *ranges; /* file:line; where that is in the program; NULL: any call site */
    int64_t from, to;          /* bytes that all members know; to < 0: no limit */
    int64_t block_size;
    int order;
    bool equal_blocks, native;
    _Atomic uint64_t applied, left_alone; /* instances, counted by the communicator's rank 0 */
};
struct asked { /* what all members know of a call */
    const char *operation;
    int64_t bytes; /* < 0: not known */
    int size;
    bool inter;
};
struct sharing;
int rules_read(const char *text);
bool rules_only(const char *text);
struct rule *rule_at(int index);
int rules_general(const struct asked *q);
uint64_t rules_by_site(const struct asked *q);
int rules_of_site(const struct asked *q, const struct site *s);
int rules_count(void);

/* ---- names.c: what messages and plans call a call site */

void names_meet(struct site *s, const char *frame, const char *known);
void names_resolve(void);
const char *site_name(const struct site *s);
const char *site_place(const struct site *s);
const char *site_frame(const struct site *s);

/* ---- remarks.c */

struct sharing *remarks_share(struct sharing *s, const char *operation, const struct site *first,
                              int first_wish, const struct site *other, int wish);
void remarks_end(MPI_Comm comm);

/* ---- private.c */

enum refusal {
    REFUSED_NOT,
    REFUSED_FULL,
    REFUSED_DEVICE,
    REFUSED_MEMORY,
    REFUSED_BY_MPI,
    REFUSALS
};
bool private_ready(struct communicator *k, MPI_Comm comm);
int private_refused(enum refusal why);
int64_t private_least(const struct communicator *k, MPI_Comm comm, int64_t value);

static inline bool has_private(const struct communicator *k)
{
    return k->private_tried && k->private != MPI_COMM_NULL;
}

/* What the members plan with: MPI_Init's, until they have agreed. */
static inline const struct link *link_of(const struct communicator *k)
{
    return has_private(k) ? &k->link : &machine_link;
}

/* Whether all members can tell a reduction that the library would refuse; true until agreed. */
static inline bool may_reduce(const struct communicator *k)
{
    return !has_private(k) || k->reduces;
}

/* ---- room.c */

void room_enter(struct communicator *k);
void room_exit(struct communicator *k);

/* ---- key.c */

struct selection;
struct key {
    uint64_t hash;
    uint32_t used;           /* sequence number of its last instance */
    uint32_t instances;      /* auto.c's count */
    uint32_t choices;        /* key_choice's */
    int agreed;              /* a rule, the same on all members; RULE_NONE: no call site's */
    int wished;              /* rank 0: the first named of what its call sites wish */
    const struct site *site; /* rank 0: the first, and what the others are noted in */
    int site_wish;
    struct sharing *sharing;
    struct selection *selection;  /* auto.c */
    const struct algorithm *heir; /* of a duplicate: what its parent had settled on, NULL: none */
    const char *heir_label;
    int64_t heir_block, heir_gain_ns, heir_price_ns;
    int heir_order;
};
uint64_t key_hash(const struct execution *e);
struct key *key_find(struct communicator *k, uint64_t hash, uint32_t sequence);
int key_choice(struct key *key, const struct execution *e, const struct asked *q);
void keys_free(struct communicator *k);
void keys_begin_anew(void);
int keys_collected(struct key **found, struct communicator **owners, int room);
void keys_end(void);
void keys_inherit(struct communicator *child, const struct communicator *parent);

/* ---- auto.c, ending.c */

struct candidate;
extern bool automatic;
void auto_start(bool chooses);
bool auto_takes(const struct call *c);
const struct candidate *auto_choose(struct execution *e, struct key *key, const struct rule *first);
void auto_watch(struct execution *e, struct key *key);
void auto_end(struct call *c);
void auto_forget(struct key *keys, int count, MPI_Comm comm);
void auto_finish(MPI_Comm comm);
void auto_inherit(struct key *child, const struct key *parent);

/* ---- valid.c */

void valid_start(void);
void valid_end(void);
bool valid_asks(void);
bool arguments_valid(const struct call *c, const struct arguments *a);
struct own_block { /* what a rank sends to itself, or gets from itself */
    char *buffer;
    MPI_Datatype type;
    int64_t count, before; /* elements, and those before it in the buffer */
};
struct own_sides {
    struct own_block sent, received;
};
bool own_sides(const struct call *c, const struct arguments *a, struct own_sides *own);
int64_t own_block_bytes(const struct own_block *b);
bool own_sizes_differ(const struct call *c, const struct arguments *a);
int own_block_pass(int operation, const struct own_sides *own);
bool is_reduction(int operation);

/* ---- device.c */

bool device_present(void);
bool device_holds(const void *buffer);

/* ---- select.c, stage.c, execute.c */

/* The process whose view counts: the private communicator's rank 0. */
static inline bool communicator_leads(const struct communicator *k)
{
    return k->rank == 0 && (!k->inter || k->first_group);
}

bool problem_is_known(const struct execution *e);

struct type_facts {
    int64_t size, lower, extent, true_lower, true_extent;
    bool named; /* a predefined type */
};

void stage_start(void);
int64_t stage_sure(const struct algorithm *a, const struct execution *e);
bool stage_has_memory(struct execution *e);
void stage_begin(struct execution *e);
void stage_end(struct execution *e);
void stage_lacks(struct execution *e, const char *at);
struct place stage_place(const struct execution *e, const struct step *s, int buffer,
                         int64_t offset, int block);
struct type_facts type_facts(MPI_Datatype type);
void execute(struct execution *e);
void execute_counts(struct execution *e, int64_t *counts, int64_t *room);
void execute_release(void);
void execution_note(struct execution *e, int error);
void execution_copy(struct execution *e, char *to, char *from, int64_t length);

MPI_Datatype argument_type(const struct arguments *a, const void *types, size_t i);
int64_t argument_count(const struct arguments *a, const void *counts, size_t i);
int64_t argument_displacement(const struct arguments *a, const void *displs, size_t i);
int64_t *counts_take(int which, int members);
MPI_Op argument_op(const struct arguments *a);

/* ---- scratch.c */

struct scratch_note {
    const struct algorithm *algorithm; /* that of those left out which needs most */
    int64_t bytes, limit;
    uint64_t times;
};
void scratch_start(void);
int64_t scratch_piece(int64_t bytes);
bool scratch_fits(const struct communicator *k, int64_t bytes);
void scratch_left_out(const struct communicator *k, const struct algorithm *a, int64_t bytes);
struct scratch_note scratch_noted(void);
bool scratch_had(struct communicator *k, int64_t bytes);
bool scratch_asked(struct communicator *k, int64_t *bytes);
void *scratch_take(struct communicator *k, int64_t bytes);
void scratch_give_back(struct communicator *k);
void scratch_free(struct communicator *k);
