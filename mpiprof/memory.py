"""What is done with memory that is freed: by the C library, and by Python's collector."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Iterator

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


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Make many objects without having Python look again and again for cycles among them.

    The tables of 4096 ranks are read in 0.8 s in place of 1.3.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
