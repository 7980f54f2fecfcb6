/* The recorder's file descriptors (fd_guard.c). */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fd_guard {
    int descriptor;
    dev_t device;
    ino_t inode;
};

struct fd_guard fd_guard_take(int descriptor);
bool fd_guard_is_ours(const struct fd_guard *f);
int fd_guard_reserve(int descriptor, off_t offset);
ssize_t fd_guard_write(int descriptor, const struct iovec *parts, int count, off_t offset);
