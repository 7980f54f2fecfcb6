/* The caller of a frame, computed by the rules of call frame information.
 *
 * The rules of a function are instructions of a small machine. They say for every address of the
 * code where the frame's canonical address is, which is the caller's stack pointer, and where the
 * caller's registers are relative to it. Threads: any.
 */
#include "callsite/frame_info.h"

enum rule_type {
    SAME_VALUE,
    UNDEFINED,
    AT_OFFSET,     /* stored at an offset from the canonical address */
    OFFSET,        /* the canonical address and an offset */
    IN_REGISTER,   /* in another register */
    AT_EXPRESSION, /* stored at the address that an expression computes */
    EXPRESSION     /* the value of an expression */
};

struct frame_rule {
    enum rule_type type;
    int32_t value; /* an offset, a register, or an expression relative to .eh_frame_hdr */
};

enum { BY_EXPRESSION = -1, MOST_REMEMBERED = 2 };

struct rule_row {
    int32_t base, offset; /* of the canonical address: register and offset, or an expression */
    struct frame_rule rules[REGISTERS];
};

struct rule_rows {
    struct rule_row now, first, remembered[MOST_REMEMBERED]; /* first: after the common rules */
    int count;                                               /* of remembered rows */
};

/* ---- instructions */

enum instruction {
    NOTHING = 0x00,
    SET_LOCATION,
    ADVANCE_1,
    ADVANCE_2,
    ADVANCE_4,
    STORED_AT,
    RESTORE,
    IS_UNDEFINED,
    IS_SAME,
    IS_IN_REGISTER,
    REMEMBER,
    RECALL,
    BASE_AND_OFFSET,
    BASE,
    BASE_OFFSET,
    BASE_EXPRESSION,
    STORED_AT_EXPRESSION,
    STORED_AT_SIGNED,
    BASE_AND_OFFSET_SIGNED,
    BASE_OFFSET_SIGNED,
    VALUE_OFFSET,
    VALUE_OFFSET_SIGNED,
    VALUE_EXPRESSION,
    ARGUMENTS_SIZE = 0x2e,
    STORED_AT_NEGATIVE = 0x2f,
    /* The upper two bits of these are the instruction, the others are an operand. */
    SHORT_ADVANCE = 0x40,
    SHORT_STORED_AT = 0x80,
    SHORT_RESTORE = 0xc0,
    SHORT = 0xc0,
    OPERAND = 0x3f
};

enum operand { NO_OPERAND, PLAIN, FACTORED, SIGNED_FACTORED, NEGATIVE_FACTORED, BLOCK };

/* Instructions that set the rule of a register, which is their first operand. */
static const struct {
    enum rule_type type;
    enum operand operand;
    bool known;
} forms[] = {
    [STORED_AT] = {AT_OFFSET, FACTORED, true},
    [IS_UNDEFINED] = {UNDEFINED, NO_OPERAND, true},
    [IS_SAME] = {SAME_VALUE, NO_OPERAND, true},
    [IS_IN_REGISTER] = {IN_REGISTER, PLAIN, true},
    [STORED_AT_EXPRESSION] = {AT_EXPRESSION, BLOCK, true},
    [STORED_AT_SIGNED] = {AT_OFFSET, SIGNED_FACTORED, true},
    [VALUE_OFFSET] = {OFFSET, FACTORED, true},
    [VALUE_OFFSET_SIGNED] = {OFFSET, SIGNED_FACTORED, true},
    [VALUE_EXPRESSION] = {EXPRESSION, BLOCK, true},
    [STORED_AT_NEGATIVE] = {AT_OFFSET, NEGATIVE_FACTORED, true},
};

/* Read an operand. That of an expression is its address relative to .eh_frame_hdr. */
static int32_t operand_read(enum operand operand, struct reader *r, const struct frame_entry *entry)
{
    const uint64_t address = (uint64_t)(uintptr_t)r->at - entry->table;

    if (operand == NO_OPERAND)
        return 0;
    const uint64_t value = frame_bytes_leb128(r, operand == SIGNED_FACTORED);

    if (operand == BLOCK) {
        *r = reader_skip(*r, value);
        return (int32_t)address;
    }
    return (int32_t)(operand == PLAIN               ? value
                     : operand == NEGATIVE_FACTORED ? 0 - value * entry->data_unit
                                                    : value * entry->data_unit);
}

static void rule_set(struct rule_row *row, uint64_t number, enum rule_type type, int32_t value)
{
    if (number < REGISTERS) /* the values of others are never needed */
        row->rules[number] = (struct frame_rule){type, value};
}

/* Execute an instruction on the canonical address. Returns false for other instructions. */
static bool base_execute(struct rule_row *row, unsigned instruction, struct reader *r,
                         const struct frame_entry *entry)
{
    if (instruction == BASE_EXPRESSION) {
        row->base = BY_EXPRESSION;
        row->offset = operand_read(BLOCK, r, entry);
        return true;
    }
    if (instruction == BASE || instruction == BASE_AND_OFFSET ||
        instruction == BASE_AND_OFFSET_SIGNED)
        row->base = operand_read(PLAIN, r, entry);
    if (instruction == BASE_OFFSET || instruction == BASE_AND_OFFSET)
        row->offset = operand_read(PLAIN, r, entry);
    if (instruction == BASE_OFFSET_SIGNED || instruction == BASE_AND_OFFSET_SIGNED)
        row->offset = operand_read(SIGNED_FACTORED, r, entry);
    return (instruction >= BASE_AND_OFFSET && instruction <= BASE_OFFSET) ||
           instruction == BASE_AND_OFFSET_SIGNED || instruction == BASE_OFFSET_SIGNED;
}

/* Execute an instruction on whole rows. Returns false for other instructions. */
static bool row_execute(struct rule_rows *rows, unsigned instruction, struct reader *r)
{
    if (instruction == REMEMBER && rows->count < MOST_REMEMBERED)
        rows->remembered[rows->count++] = rows->now;
    else if (instruction == RECALL && rows->count > 0)
        rows->now = rows->remembered[--rows->count];
    else if (instruction == ARGUMENTS_SIZE)
        frame_bytes_leb128(r, false);
    else
        return instruction == NOTHING;
    return true;
}

/* Execute an instruction that is not short. Returns false if it is unknown. */
static bool long_execute(struct rule_rows *rows, unsigned instruction, struct reader *r,
                         const struct frame_entry *entry)
{
    if (row_execute(rows, instruction, r) || base_execute(&rows->now, instruction, r, entry))
        return true;
    const uint64_t number = frame_bytes_leb128(r, false);

    if (instruction == RESTORE && number < REGISTERS) {
        rows->now.rules[number] = rows->first.rules[number];
        return true;
    }
    if (instruction >= sizeof forms / sizeof *forms || !forms[instruction].known)
        return instruction == RESTORE;
    rule_set(&rows->now, number, forms[instruction].type,
             operand_read(forms[instruction].operand, r, entry));
    return true;
}

/* Return true if an instruction advances the address of the code to which the next ones apply. */
static bool location_advance(uint64_t *location, unsigned instruction, struct reader *r,
                             const struct frame_entry *entry)
{
    if ((instruction & SHORT) == SHORT_ADVANCE)
        *location += (instruction & OPERAND) * entry->code_unit;
    else if (instruction >= ADVANCE_1 && instruction <= ADVANCE_4)
        *location += read_number(r, (size_t)1 << (instruction - ADVANCE_1)) * entry->code_unit;
    else if (instruction == SET_LOCATION)
        *location = frame_bytes_pointer(r, entry->encoding, entry->table);
    else
        return false;
    return true;
}

/* Execute the rules up to an address of the code. Returns false if an instruction is unknown. */
static bool rules_execute(struct rule_rows *rows, struct reader r, const struct frame_entry *entry,
                          uint64_t until)
{
    uint64_t location = entry->begin;

    while (r.at != NULL && r.at < r.end && location <= until) {
        const unsigned instruction = (unsigned)read_number(&r, 1);
        const unsigned number = instruction & OPERAND;
        bool known = true;

        if (location_advance(&location, instruction, &r, entry))
            continue;
        if ((instruction & SHORT) == SHORT_STORED_AT)
            rule_set(&rows->now, number, AT_OFFSET, operand_read(FACTORED, &r, entry));
        else if ((instruction & SHORT) != SHORT_RESTORE)
            known = long_execute(rows, instruction, &r, entry);
        else if (number < REGISTERS)
            rows->now.rules[number] = rows->first.rules[number];
        if (!known)
            return false;
    }
    return r.at != NULL;
}

/* ---- the caller */

/* The objects that rules refer to: a frame, and the expressions in the tables of its object. */
struct rule_context {
    const struct frame *frame;
    const struct frame_entry *entry;
    const struct dl_phdr_info *object;
};

static bool expression_value(const struct rule_context *c, int32_t relative, const uint64_t *first,
                             uint64_t *value)
{
    const uint64_t address = c->entry->table + (uint64_t)(int64_t)relative;

    return frame_expression_value(frame_bytes_of(c->object, address), c->frame, first, value);
}

/* Compute a register of the caller. Returns false if its value is unknown. */
static bool rule_value(const struct rule_context *c, const struct frame_rule *rule,
                       uint64_t canonical, uint64_t *value)
{
    const uint64_t offset = (uint64_t)(int64_t)rule->value;

    switch (rule->type) {
    case AT_OFFSET: return frame_read(c->frame, canonical + offset, value);
    case OFFSET: *value = canonical + offset; return true;
    case IN_REGISTER:
        if (offset >= REGISTERS)
            return false;
        *value = c->frame->registers[offset];
        return true;
    case EXPRESSION: return expression_value(c, rule->value, &canonical, value);
    case AT_EXPRESSION:
        return expression_value(c, rule->value, &canonical, value) &&
               frame_read(c->frame, *value, value);
    default: return true;
    }
}

/* Compute the canonical address of a frame. Returns false if it is unknown. */
static bool canonical_address(const struct rule_context *c, const struct rule_row *row,
                              uint64_t *address)
{
    if (row->base == BY_EXPRESSION)
        return expression_value(c, row->offset, NULL, address);
    if (row->base < 0 || row->base >= REGISTERS)
        return false;
    *address = c->frame->registers[row->base] + (uint64_t)(int64_t)row->offset;
    return true;
}

/* Replace a frame by its caller's. instruction: an address in the frame's function, before the
 * return address if the frame made a call. */
enum frame_end frame_rules_apply(struct frame *frame, const struct frame_entry *entry,
                                 const struct dl_phdr_info *object, uint64_t instruction)
{
    const struct frame callee = *frame;
    const struct rule_context context = {&callee, entry, object};
    struct rule_rows rows = {0};
    uint64_t canonical;

    if (entry->return_register != INSTRUCTION ||
        !rules_execute(&rows, entry->common_rules, entry, UINT64_MAX))
        return UNKNOWN_CALLER;
    rows.first = rows.now;
    if (!rules_execute(&rows, entry->rules, entry, instruction) ||
        rows.now.rules[INSTRUCTION].type == SAME_VALUE)
        return UNKNOWN_CALLER;
    if (rows.now.rules[INSTRUCTION].type == UNDEFINED)
        return OUTERMOST;
    if (!canonical_address(&context, &rows.now, &canonical) ||
        canonical <= callee.registers[STACK_POINTER]) /* stacks grow down */
        return UNKNOWN_CALLER;
    frame->registers[STACK_POINTER] = canonical;
    for (int i = 0; i < REGISTERS; i++) {
        uint64_t value = frame->registers[i];

        if (rule_value(&context, &rows.now.rules[i], canonical, &value))
            frame->registers[i] = value;
        else if (i == INSTRUCTION)
            return UNKNOWN_CALLER;
        /* At the end of a function, a register that has been restored already is stored below the
         * stack pointer, outside of the copy. Its value is then the caller's. */
    }
    return frame->registers[INSTRUCTION] != 0 ? HAS_CALLER : OUTERMOST;
}
