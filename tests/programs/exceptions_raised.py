"""Raises or handles an exception as its argument says; prints all that the program can observe."""

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from mpi4py import MPI


class SilentError(Exception):
    """An exception whose text is made by code of the program, which must run once."""

    def __str__(self) -> str:
        print("text made", file=sys.stderr)
        return "made"


def own_hook(*raised: Any) -> None:
    print("own hook", raised[0].__name__, file=sys.stderr, flush=True)


def aborting_hook(*raised: Any) -> None:
    own_hook(*raised)
    MPI.COMM_WORLD.Abort(5)


def leaving_hook(*raised: Any) -> None:
    own_hook(*raised)
    os._exit(9)


EMPTY: dict[str, int] = {}
HOOKS: dict[str, Callable[..., None]] = {
    "own hook": own_hook,
    "abort hook": aborting_hook,
    "exit hook": leaving_hook,
}


def raise_in_thread() -> None:
    thread = threading.Thread(target=lambda: EMPTY["key"], name="worker")
    thread.start()
    thread.join()


def handle(how: str) -> None:
    try:
        raise OSError(2, "no input")
    except OSError:
        if how == "abort":
            MPI.COMM_WORLD.Abort(7)


def act(how: str) -> None:
    if how == "uncaught":
        raise ValueError("bad\nshape " + "x" * 500)
    if how == "own text":
        raise SilentError("made")
    if how in HOOKS:
        sys.excepthook = HOOKS[how]
        raise RuntimeError(how)
    if how == "thread":
        raise_in_thread()
    if how == "abort alone":
        MPI.COMM_WORLD.Abort(6)
    if how == "thread abort":
        raise_in_thread()
        handle("abort")
    if how == "thread hook":
        threading.excepthook = lambda raised: own_hook(raised.exc_type)
        raise_in_thread()
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "exit":
        sys.exit("leaves")
    if how == "thread exit":
        thread = threading.Thread(target=sys.exit, args=(3,))
        thread.start()
        thread.join()
    handle(how)


rank = MPI.COMM_WORLD.rank
MPI.COMM_WORLD.Barrier()
if rank == MPI.COMM_WORLD.size - 1:
    act(sys.argv[1])
MPI.COMM_WORLD.Barrier()
