"""The calls of a study: buffers for one case on this rank, and what must be in them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.bench.case import LINE, Case
from mpiprof.errors import MpiprofError

GAP_BYTES = 8  # data of an element of the type with gaps, which is twice as long


def mpi4py() -> Any:
    """Import mpi4py's MPI, which initialises MPI: not before a study runs."""
    from mpi4py import MPI

    return MPI


@dataclass
class Call:
    """A case on this rank: its buffers, what to call, and what must be in `received` then.

    `switched`: how many calls our algorithms have taken over.
    """

    run: Callable[[], Any]
    sent: NDArray[Any]
    received: NDArray[Any]
    expected: NDArray[Any] | None
    switched: int = 0


def _displacements(counts: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(counts[:-1]).tolist()]


def _spread(values: NDArray[np.uint8], gaps: bool) -> NDArray[np.uint8]:
    """Return data as it lies in a buffer: with gaps, as many zeros behind each element."""
    if not gaps:
        return values
    pairs = np.zeros((len(values) // GAP_BYTES, 2, GAP_BYTES), np.uint8)
    pairs[:, 0] = values.reshape(-1, GAP_BYTES)
    return pairs.reshape(-1)


def _gathered(sizes: Sequence[int]) -> NDArray[np.uint8]:
    return np.repeat(np.arange(1, len(sizes) + 1).astype(np.uint8), sizes)


def _allgatherv(case: Case, comm: Any) -> Call:
    p, mpi = case.problem, mpi4py()
    own, others = list(p.counts), list(p.remote_counts if p.remote_size else p.counts)
    if p.remote_size and not _in_first(case, comm):
        own, others = others, own
    kind, size = mpi.BYTE, 1
    if case.gaps:
        kind = mpi.BYTE.Create_vector(1, GAP_BYTES, GAP_BYTES).Create_resized(0, 2 * GAP_BYTES)
        kind.Commit()
        size = GAP_BYTES
    data = np.full(own[comm.rank], comm.rank + 1, np.uint8)
    sent, expected = _spread(data, case.gaps), _spread(_gathered(others), case.gaps)
    received = np.full(len(expected), 0, np.uint8)  # touches its pages
    counts = [n // size for n in others]
    into = [received, counts, _displacements(counts), kind]
    out = [sent, own[comm.rank] // size, kind]
    return Call(lambda: comm.Allgatherv(out, into), sent, received, expected)


def _in_first(case: Case, comm: Any) -> bool:
    """Whether this rank is in the first group; asked of the sizes, or of the world's ranks."""
    first = int(case.members.partition("+")[0])
    return int(mpi4py().COMM_WORLD.rank) < first and comm.Is_inter()


def _allgather(case: Case, comm: Any) -> Call:
    p, mpi = case.problem, mpi4py()
    own, other, number = p.bytes, p.bytes, p.size
    if p.remote_size:
        own, other, number = p.bytes, p.remote_bytes, p.remote_size
        if not _in_first(case, comm):
            own, other, number = other, own, p.size
    sent = np.full(own, comm.rank + 1, np.uint8)
    expected = _gathered([other] * number)
    received = np.full(len(expected), 0, np.uint8)  # touches its pages
    return Call(
        lambda: comm.Allgather([sent, own, mpi.BYTE], [received, other, mpi.BYTE]),
        sent,
        received,
        expected,
    )


def _alltoall(case: Case, comm: Any) -> Call:
    n, mpi = case.problem.bytes, mpi4py()
    sent = np.full(n * comm.size, comm.rank + 1, np.uint8)
    received = np.full(n * comm.size, 0, np.uint8)
    out, into = [sent, n, mpi.BYTE], [received, n, mpi.BYTE]
    return Call(lambda: comm.Alltoall(out, into), sent, received, _gathered([n] * comm.size))


def _bcast(case: Case, comm: Any) -> Call:
    n, mpi = case.problem.bytes, mpi4py()
    message = np.full(n, 7 if comm.rank == 0 else 0, np.uint8)
    return Call(
        lambda: comm.Bcast([message, n, mpi.BYTE], 0), message, message, np.full(n, 7, np.uint8)
    )


def _reduction(case: Case, comm: Any) -> Call:
    mpi, unit = mpi4py(), case.problem.unit
    count = case.problem.bytes // unit
    if case.maxloc:
        layout = np.dtype([("value", np.float64), ("place", np.int32)], align=True)
        sent = np.zeros(count, layout)
        sent["value"], sent["place"] = comm.rank, comm.rank
        expected = np.zeros(count, layout)
        expected["value"], expected["place"] = comm.size - 1, comm.size - 1
        kind, op = mpi.DOUBLE_INT, mpi.MAXLOC
    else:
        sent = np.full(count, comm.rank + 1.0)
        expected = np.full(count, comm.size * (comm.size + 1) / 2)
        kind, op = mpi.DOUBLE, mpi.SUM
    received = sent.copy()
    out, into = [sent, count, kind], [received, count, kind]
    if case.operation == "reduce":
        wanted = expected if comm.rank == 0 else None
        return Call(lambda: comm.Reduce(out, into, op, 0), sent, received, wanted)
    return Call(lambda: comm.Allreduce(out, into, op), sent, received, expected)


def _line(case: Case, comm: Any) -> Call:
    n, mpi, last = case.problem.bytes, mpi4py(), comm.size - 1
    message = np.full(n, 7 if comm.rank == 0 else 0, np.uint8)

    def run() -> None:
        if comm.rank == 0:
            comm.Send([message, n, mpi.BYTE], last)
        elif comm.rank == last:
            comm.Recv([message, n, mpi.BYTE], 0)

    return Call(run, message, message, None)


CALLS: dict[str, Callable[[Case, Any], Call]] = {
    "allgather": _allgather,
    "allgatherv": _allgatherv,
    "alltoall": _alltoall,
    "bcast": _bcast,
    "reduce": _reduction,
    "allreduce": _reduction,
    LINE: _line,
}


def check(case: Case, call: Call) -> None:
    """Raise MpiprofError where a call has not brought what it must."""
    if call.expected is not None and not np.array_equal(call.received, call.expected):
        raise MpiprofError(f"{case.operation} by {case.choice} gave a wrong result: {case.labels}")
