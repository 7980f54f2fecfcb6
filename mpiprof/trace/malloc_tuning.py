"""Tunes the reuse of freed memory by the C library and by Python's garbage collector."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import mmap
import time
from collections.abc import Iterator

# From glibc's malloc.h. Arrays that are mapped are returned as soon as they are freed.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
OPTIONS = {TRIM_THRESHOLD: 1 << 30, MMAP_MAX: 0}  # bytes, and number of mapped arrays

HUGE_PAGE_BYTES, TOUCHED_PAGES = 1 << 21, 3
SLOW_NS = 2_000_000  # 0.1 to 1 ms are usual


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
    if _is_huge_page_slow():
        _make_numpy_use_small_pages()


def request_huge_pages(memory: mmap.mmap) -> None:
    """Have memory consist of huge pages, if the kernel has them and their first touch is fast."""
    if not _is_huge_page_slow():
        with contextlib.suppress(OSError):  # the kernel has no huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)


@functools.cache
def _is_huge_page_slow() -> bool:
    """Return whether the first touch of a huge page takes long.

    NumPy asks for huge pages. A virtual machine returns large parts of its free memory to its host,
    which then has to provide each part of a huge page anew. Small pages are often still there.
    """
    flags, slowest_ns = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0
    memory = [mmap.mmap(-1, 2 * HUGE_PAGE_BYTES, flags) for _ in range(TOUCHED_PAGES)]
    for two_pages in memory:
        try:
            two_pages.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # the kernel has no huge pages
            return False
        begin_ns = time.thread_time_ns()
        two_pages[HUGE_PAGE_BYTES] = 1  # a whole huge page contains the middle
        slowest_ns = max(slowest_ns, time.thread_time_ns() - begin_ns)
    return slowest_ns > SLOW_NS


def _make_numpy_use_small_pages() -> None:
    """Have NumPy request no huge pages. Unlike prctl, this does not affect started programs."""
    for package in ("numpy._core", "numpy.core"):  # of NumPy 2 and 1
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(f"{package}.multiarray")._set_madvise_hugepage(False)
            return


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
