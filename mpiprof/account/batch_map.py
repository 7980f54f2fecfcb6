"""One pass over a trace, batch by batch: in this process or on the workers of a data set.

A function is called with InstanceMetrics and each batch. Its results are delivered in matching
order, wherever they were computed. So sums are equal to the last bit, whichever workers computed
them.
"""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.account.instance_metrics import InstanceMetrics
from mpiprof.account.instance_rows import CallsiteKey
from mpiprof.account.shape_names import name_shapes
from mpiprof.errors import TraceError
from mpiprof.trace.batch import Batch
from mpiprof.trace.dataset import FILE_NAME, StoredBlock
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int, Problems

CALLS_PER_PIECE = 1 << 18, 1 << 21  # least and most calls per piece; Dask takes 2 ms per piece
PIECES_PER_THREAD = 16  # per thread if pieces are large enough, so that threads end together
# range of block numbers in a piece; bounds the blocks that wait for earlier ones
MAX_BLOCKS_PER_PIECE = 1 << 12

Function = Callable[..., Any]  # called with InstanceMetrics, a batch and further arguments
Known = Mapping[CallsiteKey, int]


@dataclass(frozen=True)
class BatchResult:
    """Result of a function for a batch; its numbers are local to its InstanceMetrics."""

    value: Any
    callsites: Int  # joint number of each local number
    algorithms: Int  # joint number of each local number


@dataclass(frozen=True)
class _BlockResult:
    """Result of a block, with the call sites, algorithms and problems that were found in it."""

    number: int
    value: Any
    callsites: list[CallsiteKey]  # without a joint number; local numbers follow the known ones
    algorithms: list[str]
    problems: list[str]


class BatchPass:
    """A pass over a trace that yields a BatchResult for each batch. Iterate it only once.

    known: call sites that already have numbers. `callsites` and `algorithms` grow during the pass.
    """

    def __init__(
        self, trace: Trace, function: Function, *arguments: Any, known: Known | None = None
    ) -> None:
        self.trace, self.function, self.arguments = trace, function, arguments
        self.callsites: dict[CallsiteKey, int] = dict(known or {})
        self.algorithms: dict[str, int] = {}

    def __iter__(self) -> Iterator[BatchResult]:
        if self.trace.workers is None or self.trace.dataset is None:
            measure = InstanceMetrics(self.trace)
            measure.callsites, measure.algorithms = self.callsites, self.algorithms
            for batch in self.trace.batches():
                value = self.function(measure, batch, *self.arguments)
                sizes = len(self.callsites), len(self.algorithms)
                yield BatchResult(value, *map(np.arange, sizes))
            return
        initial_numbers = np.arange(len(self.callsites))
        dataset = self.trace.dataset
        remaining_blocks = len(dataset.blocks)
        for sent in _order_results(self._results_of_workers(dataset.partitions())):
            remaining_blocks -= 1
            for line in sent.problems:
                self.trace.problems.add(line)
            callsites = np.append(initial_numbers, _joint_numbers(sent.callsites, self.callsites))
            algorithms = _joint_numbers(sent.algorithms, self.algorithms)
            yield BatchResult(sent.value, callsites, algorithms)
        if remaining_blocks:
            remedy = "export the data set again"
            raise TraceError(f"{self.trace.path}: its list of blocks has gaps: {remedy}")

    def _results_of_workers(
        self, partitions: list[list[StoredBlock]]
    ) -> Iterator[list[_BlockResult]]:
        assert self.trace.workers is not None
        self.trace.repeat_problems()
        calls = _calls_per_piece(self.trace, self.trace.workers.threads())
        pieces = sorted(
            (piece for blocks in partitions for piece in _split_pieces(self.trace, blocks, calls)),
            key=lambda piece: piece[0].number,
        )
        path = str(self.trace.path.resolve())
        shared = path, list(self.callsites), self.trace.machine, self.function, self.arguments
        return self.trace.workers.map(functools.partial(_process_blocks, *shared), pieces)


def _calls_per_piece(trace: Trace, threads: int) -> int:
    """Return the number of calls per piece for `threads` worker threads."""
    assert trace.dataset is not None
    members = [len(communicator.ranks) for communicator in trace.tables.communicators]
    calls = sum(members[block.communicator] * block.instances for block in trace.dataset.blocks)
    least, most = CALLS_PER_PIECE
    return min(max(calls // (PIECES_PER_THREAD * max(threads, 1)), least), most)


def _split_pieces(
    trace: Trace, blocks: list[StoredBlock], calls: int
) -> Iterator[list[StoredBlock]]:
    """Yield runs of a partition's blocks, with about `calls` calls each."""
    # A block's result is stored until all earlier blocks are done. Blocks of a rarely used
    # communicator may be far apart, so MAX_BLOCKS_PER_PIECE bounds the range of a run.
    members = len(trace.tables.communicators[blocks[0].communicator].ranks)
    each = max(calls // max(members * max(b.instances for b in blocks), 1), 1)
    first = 0
    for at, block in enumerate(blocks):
        if at - first >= each or block.number - blocks[first].number >= MAX_BLOCKS_PER_PIECE:
            yield blocks[first:at]
            first = at
    yield blocks[first:]


def _order_results(pieces: Iterable[list[_BlockResult]]) -> Iterator[_BlockResult]:
    """Yield results in order of block number; blocks of different communicators interleave."""
    waiting: dict[int, _BlockResult] = {}
    number = 0
    for piece in pieces:
        waiting |= {sent.number: sent for sent in piece}
        while number in waiting:
            yield waiting.pop(number)
            number += 1


def _joint_numbers(names: list[Any], joint: dict[Any, int]) -> Int:
    return np.array([joint.setdefault(name, len(joint)) for name in names], np.int64)


def _process_blocks(
    path: str,
    initial_callsites: list[CallsiteKey],
    machine: dict[str, Any] | None,
    function: Function,
    arguments: tuple[Any, ...],
    blocks: list[StoredBlock],
) -> list[_BlockResult]:
    """Process some blocks of a partition on a worker."""
    trace = _open_trace(path)
    assert trace.dataset is not None
    measure = InstanceMetrics(trace)
    measure.machine = machine  # which --machine may have replaced
    measure.callsites.update({key: number for number, key in enumerate(initial_callsites)})
    batches: Iterator[Batch] = trace.dataset.batches(blocks=blocks)
    results = []
    for block, batch in zip(blocks, batches, strict=True):
        measure.problems = Problems()
        value = function(measure, batch, *arguments)
        numbered = measure.take_callsites(len(initial_callsites))
        results.append(_BlockResult(block.number, value, *numbered, measure.problems))
    return results


_lock = threading.Lock()  # a worker may have several threads


def _open_trace(path: str) -> Trace:
    try:
        made_ns = (Path(path) / FILE_NAME).stat().st_mtime_ns
    except OSError as error:
        raise TraceError(
            f"{path}: {error.strerror} on {socket.gethostname()}, where a worker runs: "
            "move the data set to a folder that all workers can read"
        ) from None
    with _lock:
        return _open_trace_once(path, made_ns)


@functools.lru_cache(maxsize=2)
def _open_trace_once(path: str, _made_ns: int) -> Trace:
    return Trace(path, {"shapes": name_shapes})
