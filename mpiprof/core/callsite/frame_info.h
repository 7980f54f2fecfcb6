/* Call frame information: tables in .eh_frame from which a frame's caller is computed.
 *
 * All objects have them, because exceptions need them. frame_entry.c finds the entry of a function,
 * frame_rules.c computes the caller, and sampled_stack.c walks a stack. Registers have the numbers
 * of x86-64; on other processors nothing is found. The tables may be damaged, so they are read only
 * within the segments of their object.
 */
#pragma once
#include <link.h>
#include <string.h>

#include "base/base.h"

enum { STACK_POINTER = 7, INSTRUCTION = 16, REGISTERS = 17 };

/* Registers of a frame, and a copy of the stack from an address on. */
struct frame {
    uint64_t registers[REGISTERS];
    uint64_t stack_start;
    const unsigned char *stack;
    size_t stack_bytes;
};

/* Copy a value of the stack. Returns false outside of the copied part. */
static inline bool frame_read(const struct frame *frame, uint64_t address, uint64_t *value)
{
    const uint64_t offset = address - frame->stack_start;

    if (frame->stack_bytes < sizeof *value || offset > frame->stack_bytes - sizeof *value)
        return false;
    memcpy(value, frame->stack + offset, sizeof *value);
    return true;
}

/* Bytes that are left to read. `at` is NULL after a read beyond the end. */
struct reader {
    const unsigned char *at, *end;
};

static inline struct reader reader_skip(struct reader r, uint64_t bytes)
{
    const bool fits = r.at != NULL && bytes <= (uint64_t)(r.end - r.at);

    r.at = fits ? r.at + bytes : NULL;
    return r;
}

/* Read a number of at most 8 bytes, 0 beyond the end. */
static inline uint64_t read_number(struct reader *r, size_t bytes)
{
    const unsigned char *const from = r->at;
    uint64_t value = 0;

    *r = reader_skip(*r, bytes);
    if (r->at != NULL)
        memcpy(&value, from, bytes); /* x86-64 is little-endian */
    return value;
}

enum { ENCODING_FORMAT = 15 };
uint64_t frame_bytes_leb128(struct reader *r, bool is_signed);
uint64_t frame_bytes_pointer(struct reader *r, unsigned encoding, uint64_t table);
struct reader frame_bytes_of(const struct dl_phdr_info *object, uint64_t address);

/* Entry of a function, and what its common entry says of it. */
struct frame_entry {
    uint64_t begin; /* of the function */
    struct reader common_rules, rules;
    uint64_t code_unit, data_unit, return_register;
    uint64_t table;    /* address of .eh_frame_hdr */
    unsigned encoding; /* of addresses: format and base */
    bool is_signal;    /* made by the kernel for a signal: its caller was interrupted */
};
bool frame_entry_find(struct frame_entry *entry, const struct dl_phdr_info *object,
                      uint64_t instruction);

bool frame_expression_value(struct reader r, const struct frame *frame, const uint64_t *first,
                            uint64_t *value);

enum frame_end { HAS_CALLER, OUTERMOST, UNKNOWN_CALLER };
enum frame_end frame_rules_apply(struct frame *frame, const struct frame_entry *entry,
                                 const struct dl_phdr_info *object, uint64_t instruction);

int sampled_stack_find(struct frame *frame, uint64_t *found, int most, bool *complete);
