"""The MPI calls of a study: this rank's buffers for a case, and their expected contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.bench.harness.case import LINE, Case
from mpiprof.errors import MpiprofError

GAP_BYTES = 8  # data in an element of the type with gaps, which is twice as long


def import_mpi() -> Any:
    """Import mpi4py's MPI, which initialises MPI, so only when a study runs."""
    from mpi4py import MPI

    return MPI


@dataclass
class Call:
    """A case on this rank: its buffers, the function to call, and the expected `received`."""

    run: Callable[[], Any]
    received: NDArray[Any]
    expected: NDArray[Any] | None
    switched: int = 0  # number of calls that ran on mpiprof's algorithms


def _displacements(counts: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(counts[:-1]).tolist()]


def _insert_gaps(values: NDArray[np.uint8], gaps: bool) -> NDArray[np.uint8]:
    """Return data as laid out in a buffer; with gaps, as many zeros follow each element."""
    if not gaps:
        return values
    pairs = np.zeros((len(values) // GAP_BYTES, 2, GAP_BYTES), np.uint8)
    pairs[:, 0] = values.reshape(-1, GAP_BYTES)
    return pairs.reshape(-1)


def _gathered(sizes: Sequence[int]) -> NDArray[np.uint8]:
    return np.repeat(np.arange(1, len(sizes) + 1).astype(np.uint8), sizes)


def _allgather(case: Case, comm: Any) -> Call:
    p, mpi = case.problem, import_mpi()
    block_counts = list(p.counts or [p.bytes] * p.size)
    others = list(p.remote_counts or [p.remote_bytes] * p.remote_size) or block_counts
    if p.remote_size:
        first = int(case.members.partition("+")[0])  # ranks in the first group
        if not (mpi.COMM_WORLD.rank < first and comm.Is_inter()):
            block_counts, others = others, block_counts
    kind, size = mpi.BYTE, 1
    if case.gaps:
        kind = mpi.BYTE.Create_vector(1, GAP_BYTES, GAP_BYTES).Create_resized(0, 2 * GAP_BYTES)
        kind.Commit()
        size = GAP_BYTES
    data = np.full(block_counts[comm.rank], comm.rank + 1, np.uint8)
    sent, expected = _insert_gaps(data, case.gaps), _insert_gaps(_gathered(others), case.gaps)
    received = np.full(len(expected), 0, np.uint8)  # touches its pages
    counts = [n // size for n in others]
    out, into = [sent, block_counts[comm.rank] // size, kind], [received, counts[0], kind]
    if case.operation == "allgather":
        return Call(lambda: comm.Allgather(out, into), received, expected)
    into[1:2] = [counts, _displacements(counts)]
    return Call(lambda: comm.Allgatherv(out, into), received, expected)


def _alltoall(case: Case, comm: Any) -> Call:
    n, mpi = case.problem.bytes, import_mpi()
    sent = np.full(n * comm.size, comm.rank + 1, np.uint8)
    received = np.full(n * comm.size, 0, np.uint8)
    out, into = [sent, n, mpi.BYTE], [received, n, mpi.BYTE]
    return Call(lambda: comm.Alltoall(out, into), received, _gathered([n] * comm.size))


def _bcast(case: Case, comm: Any) -> Call:
    n, root, mpi = case.problem.bytes, case.problem.root, import_mpi()
    message = np.full(n, 7 if comm.rank == root else 0, np.uint8)
    buffer, expected = [message, n, mpi.BYTE], np.full(n, 7, np.uint8)
    return Call(lambda: comm.Bcast(buffer, root), message, expected)


def _reduction(case: Case, comm: Any) -> Call:
    mpi, unit, root = import_mpi(), case.problem.unit, case.problem.root
    count = case.problem.bytes // unit
    if case.maxloc:
        layout = np.dtype([("value", np.float64), ("place", np.int32)], align=True)
        sent = np.zeros(count, layout)
        sent["value"], sent["place"] = comm.rank, comm.rank
        expected = np.zeros(count, layout)
        expected["value"], expected["place"] = comm.size - 1, comm.size - 1
        kind, op = mpi.DOUBLE_INT, mpi.MAXLOC
    else:
        number, kind = _number_types(unit)
        sent = np.full(count, comm.rank + 1, number)
        expected = np.full(count, comm.size * (comm.size + 1) // 2).astype(number)
        op = mpi.SUM
    received = sent.copy()
    out, into = [sent, count, kind], [received, count, kind]
    if case.operation == "reduce":
        wanted = expected if comm.rank == root else None
        return Call(lambda: comm.Reduce(out, into, op, root), received, wanted)
    return Call(lambda: comm.Allreduce(out, into, op), received, expected)


def _number_types(unit: int) -> tuple[Any, Any]:
    """Return the types with elements of so many bytes, for NumPy and for MPI."""
    mpi = import_mpi()
    kinds = {8: (np.float64, mpi.DOUBLE), 4: (np.float32, mpi.FLOAT), 2: (np.uint16, mpi.UINT16_T)}
    return kinds.get(unit, (np.uint8, mpi.UINT8_T))


def _reduce_scatter(case: Case, comm: Any) -> Call:
    p = case.problem
    number, kind = _number_types(p.unit)
    counts = [n // p.unit for n in p.counts or [p.bytes] * comm.size]
    count = counts[comm.rank]
    sent = np.full(sum(counts), comm.rank + 1, number)
    received = np.zeros(count, number)
    expected = np.full(count, comm.size * (comm.size + 1) // 2).astype(number)
    op, into = import_mpi().SUM, [received, count, kind]
    if p.counts:
        out = [sent, sum(counts), kind]
        return Call(lambda: comm.Reduce_scatter(out, into, counts, op), received, expected)
    out = [sent, count, kind]
    return Call(lambda: comm.Reduce_scatter_block(out, into, op), received, expected)


def _alltoallv(case: Case, comm: Any) -> Call:
    mpi, rows = import_mpi(), case.problem.rows
    to, of = list(rows[comm.rank]), [row[comm.rank] for row in rows]
    sent = np.full(sum(to), comm.rank + 1, np.uint8)
    received = np.full(sum(of), 0, np.uint8)
    out, into = ([b, c, _displacements(c), mpi.BYTE] for b, c in ((sent, to), (received, of)))
    return Call(lambda: comm.Alltoallv(out, into), received, _gathered(of))


def _rooted(case: Case, comm: Any) -> Call:
    """Return a gather or a scatter; the root has the data of all ranks, others only their part."""
    p, byte = case.problem, import_mpi().BYTE
    counts, at_root = list(p.counts or [p.bytes] * comm.size), comm.rank == p.root
    everything = _gathered(counts) if at_root else np.zeros(0, np.uint8)
    contribution = np.full(counts[comm.rank], comm.rank + 1).astype(np.uint8)
    gathers = case.operation in ("gather", "gatherv")
    sent, expected = (contribution, everything) if gathers else (everything, contribution)
    received = np.full(len(expected), 0, np.uint8)
    whole, part = (received, sent) if gathers else (sent, received)
    layout = [counts, _displacements(counts)] if p.counts else [p.bytes]
    buffers = [[whole, *layout, byte] if at_root else None, [part, len(part), byte]]
    function = getattr(comm, case.operation.capitalize())
    out, into = reversed(buffers) if gathers else buffers
    return Call(lambda: function(out, into, p.root), received, expected)


def _barrier(_: Case, comm: Any) -> Call:
    nothing = np.zeros(0, np.uint8)
    return Call(comm.Barrier, nothing, None)


def _linear_broadcast(case: Case, comm: Any) -> Call:
    n, mpi, last = case.problem.bytes, import_mpi(), comm.size - 1
    message = np.full(n, 7 if comm.rank == 0 else 0, np.uint8)

    def run() -> None:
        if comm.rank == 0:
            comm.Send([message, n, mpi.BYTE], last)
        elif comm.rank == last:
            comm.Recv([message, n, mpi.BYTE], 0)

    return Call(run, message, None)


CALL_MAKERS: dict[str, Callable[[Case, Any], Call]] = {
    **dict.fromkeys(("allgather", "allgatherv"), _allgather),
    "alltoall": _alltoall,
    "alltoallv": _alltoallv,
    "barrier": _barrier,
    "bcast": _bcast,
    **dict.fromkeys(("gather", "gatherv", "scatter", "scatterv"), _rooted),
    **dict.fromkeys(("reduce", "allreduce"), _reduction),
    **dict.fromkeys(("reduce_scatter", "reduce_scatter_block"), _reduce_scatter),
    LINE: _linear_broadcast,
}


def check(case: Case, call: Call) -> None:
    """Raise MpiprofError if the received data is wrong."""
    if call.expected is not None and not np.array_equal(call.received, call.expected):
        raise MpiprofError(f"{case.operation} by {case.choice} gave a wrong result: {case.labels}")
