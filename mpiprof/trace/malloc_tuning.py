"""Tunes the reuse of freed memory by the C library and by Python's garbage collector."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Iterator

# From glibc's malloc.h. Arrays that are mapped are returned as soon as they are freed.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
OPTIONS = {TRIM_THRESHOLD: 1 << 30, MMAP_MAX: 0}  # bytes, and number of mapped arrays


@functools.cache
def retain_freed_memory() -> None:
    """Make this process reuse freed memory, instead of returning it to the system at once."""
    # Reading a trace allocates one large array after another. The page faults of each new array
    # would take as long as the computation on it. Dask starts its workers with
    # MALLOC_TRIM_THRESHOLD_, by which they would even return every array.
    import ctypes

    change = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if change is not None:
        for option, value in OPTIONS.items():
            change(option, value)


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: the tables of 4096 ranks are read in 0.8 s, not 1.3 s."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
