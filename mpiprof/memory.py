"""What the C library does with memory that is freed."""

from __future__ import annotations

import functools

# Of glibc's malloc.h. Beyond 32 MB it takes no value for the second of them.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT = {TRIM_THRESHOLD: 128 << 20, MMAP_THRESHOLD: 32 << 20}  # bytes


@functools.cache
def keep_freed() -> None:
    """Have this process use freed memory again, in place of giving it back at once.

    Reading a trace makes one large array after the other; the page faults of each new one would
    take as long as what is calculated with it. Dask starts its workers with MALLOC_TRIM_THRESHOLD_,
    by which they would even give back every array.
    """
    import ctypes

    change = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if change is not None:
        for option, value in KEPT.items():
            change(option, value)
