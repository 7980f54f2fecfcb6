"""Calls MPI_Barrier from known lines beside other threads; argv: libmpi, activity of the threads.

Through ctypes, so that any Python runs it, with no package installed. `# NAME` marks a line that
must be told as a call site, in the function of that name.
"""

import contextlib
import ctypes
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

library, beside = sys.argv[1:3]
ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
mpi = ctypes.CDLL(None)  # lets go of the lock, as mpi4py does
holding = ctypes.PyDLL(None)
if hasattr(mpi, "ompi_mpi_comm_world"):
    world: Any = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
else:
    world = ctypes.c_int(0x44000000)
ROUNDS = 8
stop = threading.Event()


def sleep() -> None:
    stop.wait()


def spin() -> None:
    n = 0
    while not stop.is_set():
        n += 1


def collect() -> None:
    while not stop.is_set():
        ring: list[Any] = [[] for _ in range(100)]
        for one, other in itertools.pairwise(ring):
            one.append(other)
            other.append(one)
        gc.collect()


def make() -> None:
    """Code that is made, run and thrown away, with frames of all kinds looked at."""
    n = 0
    while not stop.is_set():
        n += 1
        exec(compile(f"def f{n % 7}(x):\n    return x\nf{n % 7}(1)", f"<made {n % 5}>", "exec"), {})
        for innermost in sys._current_frames().values():
            frame: FrameType | None = innermost
            while frame is not None:
                frame = frame.f_back


def trace() -> None:
    def local(*_: object) -> Any:
        return local

    while not stop.is_set():
        sys.settrace(local)
        sys.setprofile(local)
        sum(i for i in range(10))
        sys.settrace(None)
        sys.setprofile(None)


def plain() -> None:
    mpi.MPI_Barrier(world)  # plain


def locked() -> None:
    holding.MPI_Barrier(world)  # locked


def steps() -> Iterator[None]:
    for _ in range(2):
        mpi.MPI_Barrier(world)  # steps
        yield


def generator() -> None:
    for _ in steps():
        pass


class Made:
    """Calls when it is made and when it goes."""

    def __init__(self) -> None:
        mpi.MPI_Barrier(world)  # __init__

    def __del__(self) -> None:
        mpi.MPI_Barrier(world)  # __del__


async def coroutine() -> None:
    mpi.MPI_Barrier(world)  # coroutine


def awaited() -> None:
    with contextlib.suppress(StopIteration):
        coroutine().send(None)


def called_back() -> None:
    sorted([1], key=lambda _: mpi.MPI_Barrier(world))  # <lambda>


def traced() -> None:
    sys.settrace(lambda *_: None)
    mpi.MPI_Barrier(world)  # traced
    sys.settrace(None)


def größer() -> None:
    mpi.MPI_Barrier(world)  # größer


def 名前() -> None:  # noqa: N802
    mpi.MPI_Barrier(world)  # 名前


def deep(n: int) -> None:
    if n:
        deep(n - 1)
    else:
        mpi.MPI_Barrier(world)  # deep


def executed(i: int) -> None:
    # Four codes at what may be one address, of which two pairs look alike.
    text = "\n" * (i % 2 * 300) + "mpi.MPI_Barrier(world)"
    exec(compile(text, f"/made/{i // 2 % 2}.py", "exec"), globals())


others: dict[str, list[Callable[[], None]]] = {
    "none": [],
    "sleeping": [sleep],
    "busy": [spin, spin],
}
others["all"] = [sleep, spin, collect, make, trace]
threads = [threading.Thread(target=f, daemon=True) for f in others[beside]]
sys.setswitchinterval(0.0002)
for one in threads:
    one.start()
(mpi if beside in ("none", "busy") else holding).MPI_Init(None, None)
for i in range(ROUNDS):
    plain()
    locked()
    generator()
    Made()
    awaited()
    called_back()
    traced()
    größer()
    名前()
    deep(50)
    executed(i)
    if i == ROUNDS // 2:
        gc.collect()
mpi.MPI_Barrier(world)  # <module>
stop.set()
for one in threads:
    one.join()
mpi.MPI_Finalize()
