/* The recorder's file descriptors (fd_guard.c). */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

struct owned {
    int descriptor;
    dev_t device;
    ino_t inode;
};

struct owned owned_take(int descriptor);
bool owned_is_ours(const struct owned *f);
int owned_reserve(int descriptor, off_t offset);
ssize_t owned_write(int descriptor, const struct iovec *parts, int count, off_t offset);
