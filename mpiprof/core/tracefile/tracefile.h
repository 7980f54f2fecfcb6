/* Files of the trace folder, except the layout of records (event.h). */
#pragma once
#include <sys/types.h>
#include <sys/uio.h>

#include "base/base.h"
#include "tracefile/event.h"

/* ---- the recorder's file descriptors (fd_guard.c) */

struct fd_guard {
    int descriptor;
    dev_t device;
    ino_t inode;
};

struct fd_guard fd_guard_register(int descriptor);
bool fd_guard_is_valid(const struct fd_guard *f);
int fd_guard_reserve(int descriptor, off_t offset);
ssize_t fd_guard_write(int descriptor, const struct iovec *parts, int count, off_t offset);

/* ---- the trace folder and its files (folder.c) */

bool folder_create(const char *path);
bool folder_create_unique(char *path, const char *wanted, const char *base);
int folder_open(const char *folder, const char *name, int flags);
const char *folder_error(int reason);
bool folder_add_mark(const char *folder, const char *name, const char *text);
bool folder_read_mark(const char *folder, const char *name, char *text, size_t room);
void folder_remove_mark(const char *folder, const char *name);

/* ---- checksums that let a reader detect damage (checksum.c) */

uint32_t checksum_chunk(const struct chunk_head *head, const struct chunk *chunk);
uint32_t checksum_words(const char *bytes, size_t length, size_t offset);
uint32_t checksum_bytes(const char *bytes, size_t length);
void checksum_close(struct text *t);

/* ---- the first chunk of a log (log_header.c) */

enum { HEAD_TEXT = 8192, HEAD_CLAIMS = 14000 };
#define HEAD_RELEASED UINT32_MAX /* a released claim; 0 ends the list */

struct log_header {
    char text[HEAD_TEXT];
    _Atomic int64_t signal_ns;      /* time of the first fatal signal of these ranks, or 0 */
    _Atomic int64_t siblings;       /* most children of its sender, the launcher; 0: unknown */
    _Atomic int64_t clock_ahead_ns; /* of the first node's clock, before this node's; 0: unknown */
    _Atomic uint64_t end;           /* of the log, in bytes; 0 until the header is complete */
    _Atomic uint64_t tables;        /* end of the tables file, in bytes */
    _Atomic uint32_t claims[HEAD_CLAIMS]; /* rank + 1 */
};
_Static_assert(sizeof(struct log_header) <= CHUNK_BYTES, "the head is one chunk");

struct log_header *log_header_create(int descriptor);
struct log_header *log_header_open(int descriptor);
bool log_header_claim(struct log_header *h, int rank);
void log_header_release(struct log_header *h, int rank);
void log_header_note_signal(struct log_header *h, int64_t time_ns, int siblings);

/* ---- files of the trace (file.c) */

bool file_open(const char *folder, int rank, const char *node);
extern char file_name[320]; /* of this rank's log and tables, without folder and suffix */
struct chunk *file_window_create(uint32_t thread, enum content content);
bool file_window_append(const struct chunk *chunk);
void file_window_seal(struct chunk *window);
bool file_is_full(void);
unsigned file_chunk_count(void);
bool file_write(int descriptor, const struct text *t);
bool file_write_line(const struct text *line);
void file_write_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void file_check_length(void);
void file_set_clock_ahead(int64_t ns);
int64_t file_clock_ahead(void);
void file_note_signal(int64_t time_ns, int siblings);
void file_close(void);

/* ---- metadata written once at the start (meta.c) */

const char *meta_library(void); /* name and version of the library, in one line */
int meta_thread_count(void);    /* threads of this process; 0 if unknown */
void meta_timestamp(char *stamp, size_t room);
void meta_write_process(const char *host, const char *node);
bool meta_write_run(bool with_world, const struct text *machine, const char *skipped);

/* ---- the processors on which a process may run (affinity.c) */

void affinity_start(struct text *t); /* for the process's line */
void affinity_check(int64_t now);
void affinity_read(int64_t now);

/* ---- the limit on processor time of the control group (control_group.c) */

struct control_group {
    struct text path;
    bool first_version; /* of control groups */
    int64_t quota_us, period_us;
};
bool control_group_find(struct control_group *g);

/* ---- settings of the MPI library and values from the launcher (library_settings.c) */

void library_setting_read(struct text *t, const char *version);
void library_setting_write_topology(struct text *t); /* for the process's line */
void library_setting_write_threads(struct text *t);  /* likewise */
int library_setting_node_processes(void); /* number of this node's processes; 0 if unknown */
int library_setting_rank(void);

/* ---- log of algorithm selection (selector_log.c) */

void selector_log_create(void);
bool selector_log_add(const struct text *line);
void selector_log_close(void);
