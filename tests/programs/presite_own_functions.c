/* Rank 1 is late, in functions of the program that spend their time in the C library, in the
 * mathematical library or in the vdso. The argument selects the function: "exp", "copy", "clock",
 * "sort", "convert" or "align". */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 100000, STEPS = 12, WORK_MS = 100 };

static double values[COUNT], copies[COUNT], result;

static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static __attribute__((noinline)) void exp_kernel(void)
{
    for (int i = 0; i < COUNT; i++)
        result += exp(values[i]);
}

static __attribute__((noinline)) void copy_kernel(void)
{
    for (int i = 0; i < 10; i++) {
        memcpy(copies, values, sizeof copies);
        result += copies[i];
    }
}

static __attribute__((noinline)) void clock_kernel(void)
{
    struct timespec t;

    for (int i = 0; i < COUNT; i++) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        result += (double)t.tv_nsec;
    }
}

static __attribute__((noinline)) int sort_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static __attribute__((noinline)) void sort_kernel(void)
{
    for (int i = 0; i < COUNT; i++)
        copies[i] = values[(i * 7919L) % COUNT];
    qsort(copies, COUNT, sizeof *copies, sort_compare);
    result += copies[1];
}

static __attribute__((noinline)) void convert_kernel(void)
{
    char text[64];

    for (int i = 0; i < COUNT / 10; i++) {
        snprintf(text, sizeof text, "%.17g", values[i]);
        result += strtod(text, NULL);
    }
}

/* A function with a realigned stack, whose frame is found by an expression only. */
static __attribute__((noinline)) void align_kernel(void)
{
    double aligned[16] __attribute__((aligned(64)));

    for (int i = 0; i < COUNT; i++) {
        aligned[i % 16] = values[i];
        __asm__ volatile("" : : "r"(aligned) : "memory");
        result += exp(aligned[i * 7 % 16]);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kernels[] = {{"exp", exp_kernel},   {"copy", copy_kernel},       {"clock", clock_kernel},
                   {"sort", sort_kernel}, {"convert", convert_kernel}, {"align", align_kernel}};
    void (*kernel)(void) = NULL;
    double x = 0;
    int rank;

    for (size_t i = 0; i < sizeof kernels / sizeof *kernels && argc > 1; i++)
        if (strcmp(argv[1], kernels[i].name) == 0)
            kernel = kernels[i].run;
    for (int i = 0; i < COUNT; i++)
        values[i] = i * 1e-5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < STEPS && kernel != NULL; i++) {
        const double end = processor_seconds() + WORK_MS * 1e-3;

        while (rank == 1 && processor_seconds() < end)
            kernel();
        MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return kernel == NULL || result == 1;
}
