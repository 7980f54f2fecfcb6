/* Tests of call frame information.
 *
 * "steps": a call of a library function is executed instruction by instruction. At each one, the
 * frames that are computed from registers and a copy of the stack must be those that the unwinder
 * of exceptions finds. Prints the number of instructions and of differences.
 *
 * "damage": the tables of this program are copied to memory with an end, and damaged at random.
 * Registers and stack are random, too. A sanitizer detects reads outside of table and stack.
 */
#include <execinfo.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ucontext.h>
#include <time.h>

#include "callsite/frame_info.h"

enum { MOST = 32, COPY_BYTES = 1 << 16, COUNT = 300 };

static unsigned char stack_copy[COPY_BYTES];
static volatile sig_atomic_t is_stepping;
static long instructions, differences;
static char *stack_end;
static double numbers[COUNT];

/* ---- steps */

static void check(const greg_t *registers)
{
    static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    void *expected[MOST + 8];
    uint64_t found[MOST];
    struct frame frame = {.stack = stack_copy};
    bool complete = false, equal;
    int skipped = 0;

    for (int i = 0; i < REGISTERS; i++)
        frame.registers[i] = (uint64_t)registers[order[i]];
    frame.stack_start = frame.registers[STACK_POINTER];
    frame.stack_bytes = (size_t)((uint64_t)(uintptr_t)stack_end - frame.stack_start);
    if (frame.stack_bytes > COPY_BYTES)
        frame.stack_bytes = COPY_BYTES;
    memcpy(stack_copy, (const void *)(uintptr_t)frame.stack_start, frame.stack_bytes);
    const uint64_t interrupted = frame.registers[INSTRUCTION];
    const int count = sampled_stack_find(&frame, found, MOST, &complete);
    const int total = backtrace(expected, MOST + 8);

    while (skipped < total && (uint64_t)(uintptr_t)expected[skipped] != interrupted)
        skipped++;
    /* Without the stub of the linker, the first frame is the caller. */
    const int stub = found[0] != interrupted + 1;

    equal = complete && count == total - skipped - stub;
    for (int i = 1 - stub; i < count && equal; i++)
        equal = found[i] == (uint64_t)(uintptr_t)expected[skipped + i + stub];
    instructions++;
    if (equal)
        return;
    if (differences++ < 3)
        fprintf(stderr, "at %#llx: %d of %d frames\n", (unsigned long long)interrupted, count,
                total - skipped);
}

static void step_received(int number, siginfo_t *info, void *context)
{
    enum { TRAP_FLAG = 0x100 };
    ucontext_t *const c = context;

    (void)number;
    (void)info;
    if (is_stepping) {
        check(c->uc_mcontext.gregs);
        c->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
    } else {
        c->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Its stack is realigned, so that its frame is found by an expression only. */
static __attribute__((noinline)) void aligned_work(void)
{
    double aligned[8] __attribute__((aligned(64)));

    for (int i = 0; i < 8; i++) {
        __asm__ volatile("" : : "r"(aligned) : "memory");
        aligned[i] = exp(numbers[i] + i);
        numbers[i] += aligned[i];
    }
}

static __attribute__((noinline)) void work(void)
{
    char text[64];
    struct timespec t;

    numbers[0] += exp(numbers[1]) + sin(numbers[2]) + pow(numbers[3], 1.5);
    qsort(numbers, COUNT, sizeof *numbers, compare);
    snprintf(text, sizeof text, "%.17g %d", numbers[4], COUNT);
    numbers[1] += strtod(text, NULL);
    clock_gettime(CLOCK_MONOTONIC, &t);
    numbers[2] += (double)t.tv_nsec;
    free(malloc(100));
    aligned_work();
}

static void steps_run(void)
{
    struct sigaction action = {.sa_sigaction = step_received, .sa_flags = SA_SIGINFO};
    void *unused[1];

    backtrace(unused, 1); /* loads the unwinder */
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i * 7 % COUNT;
    sigaction(SIGTRAP, &action, NULL);
    is_stepping = 1;
    raise(SIGTRAP);
    work();
    is_stepping = 0;
    __asm__ volatile("nop");
    printf("%ld %ld\n", instructions, differences);
}

/* ---- damage */

static int object_copy(struct dl_phdr_info *object, size_t size, void *copy)
{
    static ElfW(Phdr) headers[2];
    const ElfW(Phdr) *table = NULL;

    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            table = &object->dlpi_phdr[i];
    for (int i = 0; i < object->dlpi_phnum && table != NULL; i++) {
        const ElfW(Phdr) *const segment = &object->dlpi_phdr[i];

        if (segment->p_type == PT_LOAD && table->p_vaddr - segment->p_vaddr < segment->p_memsz) {
            headers[0] = *segment;
            headers[1] = *table;
        }
    }
    *(struct dl_phdr_info *)copy = *object;
    ((struct dl_phdr_info *)copy)->dlpi_phdr = headers;
    ((struct dl_phdr_info *)copy)->dlpi_phnum = 2;
    return 1; /* the first object is the program */
}

/* The sanitizer's redzones are between variables of the table's segment. */
static __attribute__((no_sanitize("address"))) void
bytes_copy(unsigned char *to, const volatile unsigned char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i];
}

static uint64_t random_below(uint64_t limit)
{
    return (uint64_t)rand() % limit;
}

static void damage_run(long rounds)
{
    struct dl_phdr_info object;
    long found = 0;

    dl_iterate_phdr(object_copy, &object);
    const ElfW(Phdr) *const segment = object.dlpi_phdr;
    const unsigned char *const original =
        (const unsigned char *)(uintptr_t)(object.dlpi_addr + segment->p_vaddr);
    const uint64_t tables = object.dlpi_phdr[1].p_vaddr - segment->p_vaddr;
    unsigned char *const bytes = malloc(segment->p_memsz);

    object.dlpi_addr = (uint64_t)(uintptr_t)bytes - segment->p_vaddr;
    for (long round = 0; round < rounds; round++) {
        unsigned char *const stack = malloc(256);
        struct frame frame = {.stack = stack, .stack_bytes = 256, .stack_start = 1 << 20};
        struct frame_entry entry;

        if (round % 8 == 0)
            bytes_copy(bytes, original, segment->p_memsz);
        for (int i = 0; i < 256; i++)
            stack[i] = (unsigned char)rand();
        for (int i = 0; i < REGISTERS; i++)
            frame.registers[i] = random_below(4) == 0 ? random_below(1u << 31) << 33
                                                      : frame.stack_start + random_below(256);
        for (int i = rand() % 40; i > 0; i--)
            bytes[tables + random_below(segment->p_memsz - tables)] = (unsigned char)rand();
        /* An address near the table's, which code is in a small program. */
        const uint64_t instruction =
            (uint64_t)(uintptr_t)bytes + tables - random_below(2 * tables + 0x3000);

        if (frame_entry_find(&entry, &object, instruction)) {
            found++;
            frame_rules_apply(&frame, &entry, &object, instruction);
        }
        free(stack);
    }
    free(bytes);
    printf("%ld\n", found);
}

int main(int argc, char **argv)
{
    stack_end = (char *)argv; /* above the frames */
    if (argc > 2 && strcmp(argv[1], "damage") == 0)
        damage_run(atol(argv[2]));
    else
        steps_run();
    return 0;
}
