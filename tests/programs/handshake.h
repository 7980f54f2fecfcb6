/* Signs that ranks give each other without MPI: one counter a rank in a file that all map.
 *
 * A late rank that waits for the signs of the other ranks is later than all of them by what it then
 * sleeps, however few processors there are. The calls of this header are none of MPI.
 */
#ifndef SIGNS_H
#define SIGNS_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SIGNS_MOST = 64, SIGNS_PATIENCE_S = 60 };

static volatile int *signs;

static inline void signs_sleep_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

/* Each rank opens the same file. */
static inline void signs_open(const char *name)
{
    const size_t bytes = SIGNS_MOST * sizeof(int);
    const int file = open(name, O_RDWR | O_CREAT, 0600);

    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        exit(2);
    signs = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (signs == MAP_FAILED)
        exit(2);
}

static inline void sign_give(int rank, int value)
{
    __atomic_store_n(&signs[rank], value, __ATOMIC_SEQ_CST);
}

/* Returns whether a rank has given this sign or a higher one before patience ends. */
static inline int sign_wait(int rank, int value)
{
    for (long ms = 0; ms < SIGNS_PATIENCE_S * 1000; ms++) {
        if (__atomic_load_n(&signs[rank], __ATOMIC_SEQ_CST) >= value)
            return 1;
        signs_sleep_ms(1);
    }
    return 0;
}

/* Gives a rank's own sign, or, on the late rank, waits for all signs and sleeps. */
static inline void signs_come_late(int rank, int late, int size, int value, long ms)
{
    if (rank != late) {
        sign_give(rank, value);
        return;
    }
    for (int other = 0; other < size; other++)
        if (other != late && !sign_wait(other, value))
            exit(3);
    signs_sleep_ms(ms);
}

#endif
