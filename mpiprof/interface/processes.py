"""Work on independent items in several processes of this machine."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

PR_SET_PDEATHSIG = 1  # of prctl: the signal that a child gets when its parent has ended
Item = TypeVar("Item")
Result = TypeVar("Result")
_function: Callable[[Any], Any]  # of the items, in a child process


def map_in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Iterator[Result]:
    """Apply a function to each item in child processes, and yield the results in order.

    The children are copies of this process, so the function may be of any type, and what it changes
    is lost. If children cannot be made, or one is killed, for example for lack of memory, this
    process does the rest.
    """
    done = 0
    if processes > 1 and len(items) > 1:
        with contextlib.suppress(BrokenProcessPool, OSError, NotImplementedError, ImportError):
            for result in _map_in_children(function, items, processes):
                done += 1
                yield result
    yield from map(function, islice(items, done, None))


def _map_in_children(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Iterator[Result]:
    context = multiprocessing.get_context("fork")
    arguments = (function, os.getpid())
    with ProcessPoolExecutor(processes, context, _start_child, arguments) as pool:
        with warnings.catch_warnings():  # of threads of NumPy, which a child does not use
            warnings.simplefilter("ignore", DeprecationWarning)
            results = pool.map(_call_function, items)
        yield from results


def _start_child(function: Callable[[Any], Any], parent: int) -> None:
    global _function
    _function = function
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was killed before
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent prints what an interrupt means


def _call_function(item: Any) -> Any:
    return _function(item)
