/* Frames of a sampled stack, by call frame information: they need no frame pointers.
 *
 * A sample has the registers and a copy of the top of the stack. The frames are computed later from
 * the copy alone. The dynamic loader lists the objects under its lock, so that none is unloaded
 * while its tables are read. An object may have been unloaded since the sample: its frame then ends
 * the stack. Threads: only the sampled thread, outside of signal handlers.
 */
#include "callsite/frame_info.h"

struct stack_walk {
    struct frame *frame;
    bool interrupted; /* the instruction is the next to execute, not a return address */
    bool in_linkage;  /* the instruction is in a stub of the linker */
    enum frame_end end;
};

/* Return true if an instruction jumps through a table of addresses: a stub of the linker, which
 * belongs to no function. */
static bool is_linkage(struct reader code)
{
    enum { BEGINS_TARGET = 0xfa1e0ff3, BOUND = 0xf2, JUMP = 0x25ff };
    struct reader next = code;

    if (read_number(&next, 4) == BEGINS_TARGET && next.at != NULL)
        code = next;
    next = code;
    if (read_number(&next, 1) == BOUND)
        code = next;
    return read_number(&code, 2) == JUMP;
}

/* Replace the frame by its caller's if the object contains its code. */
static int caller_find(struct dl_phdr_info *object, size_t size, void *walk)
{
    struct stack_walk *const w = walk;
    const uint64_t address = w->frame->registers[INSTRUCTION];
    const uint64_t instruction = address - !w->interrupted;
    struct frame_entry entry;

    (void)size;
    const struct reader code = frame_bytes_of(object, instruction);

    if (code.at == NULL)
        return 0;
    w->in_linkage = w->interrupted && is_linkage(code);
    if (frame_entry_find(&entry, object, instruction)) {
        w->end = frame_rules_apply(w->frame, &entry, object, instruction);
        w->interrupted = entry.is_signal;
    }
    return 1;
}

/* Store the addresses of a stack's frames as return addresses, the innermost first, and return
 * their number. An interrupted instruction counts as that of a call before it. `frame` becomes the
 * outermost frame that was found, and complete is true if that has no caller. */
int sampled_stack_find(struct frame *frame, uint64_t *found, int most, bool *complete)
{
    struct stack_walk w = {.frame = frame, .interrupted = true, .end = HAS_CALLER};
    int count = 0;

    while (count < most && w.end == HAS_CALLER) {
        const uint64_t address = frame->registers[INSTRUCTION] + w.interrupted;
        const struct frame callee = *frame;

        w.in_linkage = false;
        w.end = UNKNOWN_CALLER;
        dl_iterate_phdr(caller_find, &w);
        if (w.end != HAS_CALLER)
            *frame = callee;
        if (!w.in_linkage || w.end != HAS_CALLER)
            found[count++] = address;
    }
    *complete = w.end == OUTERMOST;
    return count;
}
