"""The MPI calls of a study: this rank's buffers for a case, and their expected contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives.papers.harness.case import LINE, Case
from mpiprof.errors import MpiprofError

GAP_BYTES = 8  # data in an element of the type with gaps, which is twice as long


def import_mpi() -> Any:
    """Import mpi4py's MPI, which initialises MPI, so only when a study runs."""
    from mpi4py import MPI

    return MPI


@dataclass
class PreparedCall:
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


def _fill(count: int, value: float, number: Any = np.uint8) -> NDArray[Any]:
    """Return a buffer of equal numbers, modulo those of its type; touches its pages."""
    return np.full(count, np.array(value).astype(number))


def _gathered(sizes: Sequence[int]) -> NDArray[np.uint8]:
    return np.repeat(np.arange(1, len(sizes) + 1).astype(np.uint8), sizes)


def _allgather(case: Case, comm: Any) -> PreparedCall:
    p, mpi = case.problem, import_mpi()
    block_counts = list(p.counts or [p.bytes] * p.size)
    remote_counts = list(p.remote_counts or [p.remote_bytes] * p.remote_size) or block_counts
    if p.remote_size:
        first = int(case.members.partition("+")[0])  # ranks in the first group
        if not (mpi.COMM_WORLD.rank < first and comm.Is_inter()):
            block_counts, remote_counts = remote_counts, block_counts
    kind, size = mpi.BYTE, 1
    if case.gaps:
        kind = mpi.BYTE.Create_vector(1, GAP_BYTES, GAP_BYTES).Create_resized(0, 2 * GAP_BYTES)
        kind.Commit()
        size = GAP_BYTES
    sent = _insert_gaps(_fill(block_counts[comm.rank], comm.rank + 1), case.gaps)
    expected = _insert_gaps(_gathered(remote_counts), case.gaps)
    received = _fill(len(expected), 0)
    counts = [n // size for n in remote_counts]
    out, into = [sent, block_counts[comm.rank] // size, kind], [received, counts[0], kind]
    if case.operation == "allgather":
        return PreparedCall(lambda: comm.Allgather(out, into), received, expected)
    into[1:2] = [counts, _displacements(counts)]
    return PreparedCall(lambda: comm.Allgatherv(out, into), received, expected)


def _alltoall(case: Case, comm: Any) -> PreparedCall:
    n, byte, rows = case.problem.bytes, import_mpi().BYTE, case.problem.rows
    to = list(rows[comm.rank]) if rows else [n] * comm.size
    counts = [row[comm.rank] for row in rows] or to
    sent, received = _fill(sum(to), comm.rank + 1), _fill(sum(counts), 0)
    out, into, function = [sent, n, byte], [received, n, byte], comm.Alltoall
    if rows:
        out, into = ([b, c, _displacements(c), byte] for b, c in ((sent, to), (received, counts)))
        function = comm.Alltoallv
    return PreparedCall(lambda: function(out, into), received, _gathered(counts))


def _bcast(case: Case, comm: Any) -> PreparedCall:
    n, root, mpi = case.problem.bytes, case.problem.root, import_mpi()
    message = _fill(n, 7 if comm.rank == root else 0)
    buffer, last = [message, n, mpi.BYTE], comm.size - 1
    if case.operation != LINE:
        return PreparedCall(lambda: comm.Bcast(buffer, root), message, _fill(n, 7))

    def run() -> None:
        if comm.rank == root:
            comm.Send(buffer, last)
        elif comm.rank == last:
            comm.Recv(buffer, root)

    return PreparedCall(run, message, None)


def _number_types(unit: int) -> tuple[Any, Any]:
    """Return the types with elements of so many bytes, for NumPy and for MPI."""
    mpi = import_mpi()
    kinds = {8: (np.float64, mpi.DOUBLE), 4: (np.float32, mpi.FLOAT), 2: (np.uint16, mpi.UINT16_T)}
    return kinds.get(unit, (np.uint8, mpi.UINT8_T))


def _reduction(case: Case, comm: Any) -> PreparedCall:
    mpi, unit, root = import_mpi(), case.problem.unit, case.problem.root
    count = case.problem.bytes // unit
    if case.maxloc:
        layout = np.dtype([("value", np.float64), ("place", np.int32)], align=True)
        sent, expected = np.zeros(count, layout), np.zeros(count, layout)
        for name in ("value", "place"):
            sent[name], expected[name] = comm.rank, comm.size - 1
        kind, op = mpi.DOUBLE_INT, mpi.MAXLOC
    else:
        number, kind = _number_types(unit)
        sent = _fill(count, comm.rank + 1, number)
        expected = _fill(count, comm.size * (comm.size + 1) // 2, number)
        op = mpi.SUM
    received = sent.copy()
    out, into = [sent, count, kind], [received, count, kind]
    if case.operation == "reduce":
        checked = expected if comm.rank == root else None
        return PreparedCall(lambda: comm.Reduce(out, into, op, root), received, checked)
    return PreparedCall(lambda: comm.Allreduce(out, into, op), received, expected)


def _reduce_scatter(case: Case, comm: Any) -> PreparedCall:
    p = case.problem
    number, kind = _number_types(p.unit)
    counts = [n // p.unit for n in p.counts or [p.bytes] * comm.size]
    count = counts[comm.rank]
    sent, received = _fill(sum(counts), comm.rank + 1, number), _fill(count, 0, number)
    expected = _fill(count, comm.size * (comm.size + 1) // 2, number)
    op, into = import_mpi().SUM, [received, count, kind]
    if p.counts:
        out = [sent, sum(counts), kind]
        return PreparedCall(lambda: comm.Reduce_scatter(out, into, counts, op), received, expected)
    out = [sent, count, kind]
    return PreparedCall(lambda: comm.Reduce_scatter_block(out, into, op), received, expected)


def _rooted(case: Case, comm: Any) -> PreparedCall:
    """Return a gather or a scatter; the root has the data of all ranks, others only their part."""
    p, byte = case.problem, import_mpi().BYTE
    counts, at_root = list(p.counts or [p.bytes] * comm.size), comm.rank == p.root
    everything = _gathered(counts) if at_root else _fill(0, 0)
    contribution = _fill(counts[comm.rank], comm.rank + 1)
    gathers = case.operation in ("gather", "gatherv")
    sent, expected = (contribution, everything) if gathers else (everything, contribution)
    received = _fill(len(expected), 0)
    all_blocks, part = (received, sent) if gathers else (sent, received)
    layout = [counts, _displacements(counts)] if p.counts else [p.bytes]
    buffers = [[all_blocks, *layout, byte] if at_root else None, [part, len(part), byte]]
    function = getattr(comm, case.operation.capitalize())
    out, into = reversed(buffers) if gathers else buffers
    return PreparedCall(lambda: function(out, into, p.root), received, expected)


def _barrier(_: Case, comm: Any) -> PreparedCall:
    return PreparedCall(comm.Barrier, _fill(0, 0), None)


CALL_MAKERS: dict[str, Callable[[Case, Any], PreparedCall]] = {
    **dict.fromkeys(("allgather", "allgatherv"), _allgather),
    **dict.fromkeys(("alltoall", "alltoallv"), _alltoall),
    "barrier": _barrier,
    **dict.fromkeys(("bcast", LINE), _bcast),
    **dict.fromkeys(("gather", "gatherv", "scatter", "scatterv"), _rooted),
    **dict.fromkeys(("reduce", "allreduce"), _reduction),
    **dict.fromkeys(("reduce_scatter", "reduce_scatter_block"), _reduce_scatter),
}


def check(case: Case, call: PreparedCall) -> None:
    """Raise MpiprofError if the received data is wrong."""
    if call.expected is not None and not np.array_equal(call.received, call.expected):
        raise MpiprofError(f"{case.operation} by {case.choice} gave a wrong result: {case.labels}")
