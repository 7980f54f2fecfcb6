/* Values of expressions in call frame information.
 *
 * Expressions occur in stubs of the linker, in functions that realign the stack, and in frames of
 * signals. They are programs for a small stack machine. Memory is read from the copy of the stack
 * only. Threads: any.
 */
#include "callsite/frame_info.h"

enum { MOST_VALUES = 8 };

struct values {
    uint64_t stack[MOST_VALUES];
    int count;
    bool failed;
};

static uint64_t value_pop(struct values *v)
{
    if (v->count > 0)
        return v->stack[--v->count];
    v->failed = true;
    return 0;
}

static void value_push(struct values *v, uint64_t value)
{
    if (v->count < MOST_VALUES)
        v->stack[v->count++] = value;
    else
        v->failed = true;
}

enum operation {
    DEREFERENCE = 0x06,
    CONSTANT_1U = 0x08,
    CONSTANT_8S = 0x0f,
    CONSTANT_ULEB = 0x10,
    CONSTANT_SLEB = 0x11,
    DUPLICATE = 0x12,
    AND = 0x1a,
    MINUS = 0x1c,
    PLUS = 0x22,
    PLUS_CONSTANT = 0x23,
    SHIFT_LEFT = 0x24,
    GREATER_OR_EQUAL = 0x2a,
    LITERAL_0 = 0x30,
    LITERAL_31 = 0x4f,
    REGISTER_0 = 0x70, /* with an offset */
    REGISTER_31 = 0x8f
};

static uint64_t constant_read(struct reader *r, unsigned operation)
{
    const size_t size = (size_t)1 << ((operation - CONSTANT_1U) / 2);
    const uint64_t value = read_number(r, size), sign = (uint64_t)1 << (8 * size - 1);
    const bool is_signed = (operation - CONSTANT_1U) % 2 != 0;

    return is_signed && size < 8 ? (value ^ sign) - sign : value;
}

static uint64_t binary_value(unsigned operation, uint64_t a, uint64_t b)
{
    return operation == AND          ? a & b
           : operation == MINUS      ? a - b
           : operation == PLUS       ? a + b
           : operation == SHIFT_LEFT ? (b < 64 ? a << b : 0)
                                     : (int64_t)a >= (int64_t)b;
}

/* Execute one operation that computes with values. */
static void operation_execute(struct values *v, unsigned operation, const struct frame *frame)
{
    const uint64_t top = value_pop(v);
    uint64_t value = 0;

    switch (operation) {
    case DEREFERENCE:
        v->failed = v->failed || !frame_read(frame, top, &value);
        value_push(v, value);
        return;
    case DUPLICATE:
        value_push(v, top);
        value_push(v, top);
        return;
    case AND:
    case MINUS:
    case PLUS:
    case SHIFT_LEFT:
    case GREATER_OR_EQUAL: value_push(v, binary_value(operation, value_pop(v), top)); return;
    default: v->failed = true;
    }
}

/* Compute the value of an expression. first: its first operand, or NULL. Returns false if it has
 * an unknown operation, or needs a value outside of the copied stack. */
bool frame_expression_value(struct reader r, const struct frame *frame, const uint64_t *first,
                            uint64_t *value)
{
    struct values v = {0};
    const uint64_t bytes = frame_bytes_leb128(&r, false);

    r.end = reader_skip(r, bytes).at;
    if (r.end == NULL)
        return false;
    if (first != NULL)
        value_push(&v, *first);
    while (!v.failed && r.at != NULL && r.at < r.end) {
        const unsigned operation = (unsigned)read_number(&r, 1);

        if (operation >= LITERAL_0 && operation <= LITERAL_31) {
            value_push(&v, operation - LITERAL_0);
        } else if (operation >= REGISTER_0 && operation <= REGISTER_31) {
            const unsigned number = operation - REGISTER_0;

            v.failed = number >= REGISTERS;
            value_push(&v,
                       frame_bytes_leb128(&r, true) + (v.failed ? 0 : frame->registers[number]));
        } else if (operation >= CONSTANT_1U && operation <= CONSTANT_8S) {
            value_push(&v, constant_read(&r, operation));
        } else if (operation == CONSTANT_ULEB || operation == CONSTANT_SLEB) {
            value_push(&v, frame_bytes_leb128(&r, operation == CONSTANT_SLEB));
        } else if (operation == PLUS_CONSTANT) {
            value_push(&v, value_pop(&v) + frame_bytes_leb128(&r, false));
        } else {
            operation_execute(&v, operation, frame);
        }
    }
    *value = value_pop(&v);
    return !v.failed && r.at != NULL;
}
