"""The records of a trace folder on one clock. Trace adds the tables derived from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mpiprof.facts.operations import OPERATIONS
from mpiprof.trace import clock as clocks_module
from mpiprof.trace.batch import Batch
from mpiprof.trace.clock import Clock
from mpiprof.trace.complete_windows import Window, intersect_stretches, pair_marks
from mpiprof.trace.dataset import FILE_NAME, Dataset
from mpiprof.trace.files import GrowingFile
from mpiprof.trace.folder import Folder
from mpiprof.trace.machine import find_fault
from mpiprof.trace.match import BATCH_RECORDS, Matcher
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.network_topology import find_switches
from mpiprof.trace.rank_arrays import Block, get_column
from mpiprof.trace.rank_group import skip_to
from mpiprof.trace.stream import FOREVER_NS, SLACK_NS, RankStream, Source
from mpiprof.trace.types import SUMMARY, Bool, Problems


class Records(Folder):
    """The records of a trace folder, in ns on the clock of rank 0's node (± `clock_error_ns`)."""

    # The machine

    given_machine: dict[str, Any] | None = None  # replaces the recorded table (--machine)

    @property
    def machine_table(self) -> Any:
        """The machine table as given or recorded, usable or not."""
        return self.meta.get("machine") if self.given_machine is None else self.given_machine

    @cached_property
    def machine_fault(self) -> str:
        """Reason why the measured message times are unusable; "" if they are usable."""
        return find_fault(self.machine_table)

    @property
    def machine(self) -> dict[str, Any] | None:
        """The machine table, or None without a usable one."""
        table = self.machine_table
        return table if isinstance(table, dict) and not self.machine_fault else None

    @property
    def page_fault_ns(self) -> float | None:
        """Processor time of a page fault without input on rank 0's node, or None."""
        table = self.meta.get("machine")
        time = table.get("page_fault_ns") if isinstance(table, dict) else None
        if not isinstance(time, int | float) or isinstance(time, bool):
            return None
        return float(time) if 0 < time < math.inf else None

    # Nodes and clocks

    @cached_property
    def node_ids(self) -> dict[int, str]:
        """Node id of each rank with a known process."""
        return {r: p["node"] for r, p in sorted(self.tables.processes.items())}

    @cached_property
    def switches(self) -> dict[int, str]:
        """Leaf switch of each rank, if known; raises TraceError (see trace/network_topology.py)."""
        return find_switches(self.path, self.tables.processes)

    @property
    def node_count(self) -> int:
        """Number of nodes, at least 1."""
        return max(len(set(self.node_ids.values())), 1)

    @cached_property
    def clocks(self) -> dict[str, Clock]:
        """The clock of each node."""
        names = list(dict.fromkeys(self.node_ids.values()))
        if len(names) < 2:
            return {name: Clock() for name in names}
        if self.dataset is not None:
            return self.dataset.clocks()
        corrected = self.meta.get("clock")
        if isinstance(corrected, dict) and isinstance(corrected.get("error_ns"), int):
            # The nodes share one clock already, with an error between two nodes.
            return {n: Clock(error_ns=corrected["error_ns"] * (n == names[0])) for n in names}
        leader_clocks = {line["node"] for line in self.tables.clocks}
        unmeasured = [name for name in names if name not in leader_clocks]
        reference = self.node_ids.get(0) or (unmeasured or names)[0]
        spans_of_node: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        for rank, node in self.node_ids.items():
            if rank in self._local_spans:
                spans_of_node[node].append(self._local_spans[rank])
        spans = {
            name: (min(s[0] for s in known), max(s[1] for s in known)) if known else (0, 0)
            for name, known in spans_of_node.items()
        }
        bounds = clocks_module.compute_instance_bounds(
            self.batches(local_times=True), self._synchronising_shapes(), self.node_ids, reference
        )
        clocks = clocks_module.build_clocks(
            self.tables.clocks, self.node_ids, reference, spans, bounds, self._found
        )
        if isinstance(corrected, dict):
            return clocks_module.make_identity_clocks(clocks, spans)
        return clocks

    def _synchronising_shapes(self) -> Bool:
        """Return for each shape whether no rank leaves before the last arrival."""
        # In an irregular operation, this depends on the other ranks' arguments.
        names = {name for name, o in OPERATIONS.items() if o.synchronises and not o.irregular}
        synchronising = [
            s.operation in names
            and (s.sent > 0 or s.operation == "barrier")
            and "error" not in s.flags
            for s in self.tables.shapes
        ]
        return np.array([*synchronising, False], np.bool_)

    @cached_property
    def clock_error_ns(self) -> int:
        """Bound on the error between the clocks of two nodes over the run; 0 on one node."""
        errors = sorted((c.error_ns for c in self.clocks.values()), reverse=True)
        return sum(errors[:2])

    def clock_of(self, rank: int) -> Clock:
        """Return the clock of a rank's node."""
        return self.clocks.get(self.node_ids.get(rank, "?"), Clock())

    def _to_joint_ns(self, rank: int, local_ns: int) -> int:
        return local_ns + self.clock_of(rank).offset_at(local_ns)

    @cached_property
    def _local_spans(self) -> dict[int, tuple[int, int]]:
        """First and last known time of each rank, on its node's clock."""
        spans = {}
        for rank in range(self.ranks):
            process, end = self.tables.processes.get(rank, {}), self.tables.ends.get(rank)
            chunks = self.thread_chunks(rank)
            first, last = process.get("started_ns"), end["at_ns"] if end else None
            if first is None:
                starts = [t for c in chunks if (t := c[0].begin_ns()) is not None]
                first = min(starts, default=None)
            if last is None:
                last = max((c[-1].last_ns() for c in chunks), default=first)
                if first is not None and last is not None:
                    last = max(last, first + self._longest_spent_ns(rank))
            if first is not None and last is not None:
                spans[rank] = (first, max(first, last))
        return spans

    def _longest_spent_ns(self, rank: int) -> int:
        """Return the longest time of a thread in calls without records, such as polls."""
        spent = (sum(times) for (of, _), times in self.logs.outside_ns.items() if of == rank)
        return max(spent, default=0)

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        """First and last known time of each rank, ns on the joint clock."""
        return {
            rank: (self._to_joint_ns(rank, first), self._to_joint_ns(rank, last))
            for rank, (first, last) in self._local_spans.items()
        }

    @cached_property
    def run_start_ns(self) -> int:
        """Start time of the first rank, on the joint clock."""
        return min((first for first, _ in self.spans.values()), default=0)

    @cached_property
    def run_ns(self) -> int:
        """Time from the first start to the last known time of any rank."""
        return max((last for _, last in self.spans.values()), default=0) - self.run_start_ns

    @cached_property
    def complete_windows(self) -> list[Window] | None:
        """Begin and end of the windows in which every call on messages of all ranks is recorded.

        None if that is unknown: only sums were recorded, or by an earlier version.
        """
        marks, ranks = self.tables.complete_marks, sorted(self.spans)
        if not ranks or not all(rank in marks for rank in ranks):
            return None
        of_rank = {
            rank: [(begins, self._to_joint_ns(rank, time_ns)) for begins, time_ns in marks[rank]]
            for rank in ranks
        }
        limits = self._recorded_limits
        return intersect_stretches([pair_marks(of_rank[rank], *limits) for rank in ranks])

    @cached_property
    def complete_share(self) -> float | None:
        """Share of the recorded stretch with every call on messages; None if unknown."""
        windows, (first_ns, last_ns) = self.complete_windows, self._recorded_limits
        if windows is None:
            return None
        complete_ns = sum(end_ns - begin_ns for begin_ns, end_ns in windows)
        return complete_ns / (last_ns - first_ns) if last_ns > first_ns else 1.0

    @property
    def _recorded_limits(self) -> Window:
        """Begin and end of the run, or of the stretch that the logs contain."""
        return self.calls_start_ns, self.calls_start_ns + self.duration_ns

    @cached_property
    def calls_start_ns(self) -> int:
        """Start of the calls in the trace: of the run, or later if a ring was overwritten."""
        since = self.complete_from_ns
        return self.run_start_ns if since is None else since

    @cached_property
    def complete_until_ns(self) -> int | None:
        """Time until which all ranks' logs are complete, on the joint clock; None if to the end.

        A log that could not grow, for example on a full disk, ends with its last record.
        """
        reached = list(self.tables.limited_ns.items())
        for rank in self.lost_ranks if self.record != "summary" else ():
            last = [chunks[-1].last_ns() for chunks in self.thread_chunks(rank)]
            reached += [(rank, max(last))] if last else []
        return min((self._to_joint_ns(r, t) for r, t in reached), default=None)

    @cached_property
    def duration_ns(self) -> int:
        """Time from `started_ns` to the end of the run, or to the end of the complete logs."""
        end = self.run_start_ns + self.run_ns
        if self.complete_until_ns is not None:
            end = min(end, self.complete_until_ns)
        return max(end - self.calls_start_ns, 0)

    @property
    def process_time_ns(self) -> int:
        """Time of all ranks together, or of all their threads if several have calls."""
        return int(self.duration_ns) * self.thread_count

    @property
    def whole_process_time_ns(self) -> int:
        """Time of all ranks or threads in the whole run, which sums of all calls cover."""
        return int(self.run_ns) * self.thread_count

    # Rings

    @cached_property
    def _complete_from(self) -> dict[int, int]:
        """Time from which the ring of a rank is complete, on its node's clock."""
        complete_from = {}
        for rank, threads in self.wrapped_chunks.items():
            firsts = [
                next((t for c in chunks if c.log.is_intact(c.index) and (t := c.begin_ns())), 0)
                for chunks in threads
            ]
            complete_from[rank] = max(firsts, default=0)
        return complete_from

    @cached_property
    def complete_from_ns(self) -> int | None:
        """Time from which all ranks' rings are complete, on the joint clock; None without rings.

        The tables of calls and instances, their waits, and shares of all ranks' time cover the time
        from then on.
        """
        return max((self._to_joint_ns(r, t) for r, t in self._complete_from.items()), default=None)

    @cached_property
    def last_sequences(self) -> dict[tuple[int, int], int]:
        """The last sequence number in a rank's totals, by rank and communicator."""
        last_of: dict[tuple[int, int], int] = {}
        shapes = self.tables.shapes
        for rank in range(self.ranks if self.record == "ring" else 0):
            for block in self.read_totals(rank):
                for shape, last in zip(block.shape.tolist(), block.sequence.tolist(), strict=True):
                    key = (rank, shapes[shape].communicator)
                    last_of[key] = max(last, last_of.get(key, -1))
        return last_of

    def read_totals(self, rank: int) -> Iterator[Block]:
        """Yield the totals of a rank's calls by chunk; a row and its extensions share a chunk."""
        for thread in self.open_stream(rank, local_times=True).threads:
            if not thread.chunks[0].is_summed():  # events are in other threads
                continue
            while thread.chunks and (block := thread.read(thread.chunks[0].log.layout.capacity)):
                yield block.take(get_column(block, "kind") == SUMMARY)

    # Records

    def possible_times(self, rank: int) -> tuple[int, int]:
        """Return the bounds of a rank's times on its node's clock; a time outside is damage."""
        started = self.tables.processes.get(rank, {}).get("started_ns")
        end = self.tables.ends.get(rank)
        return (
            1 - FOREVER_NS if started is None else started - SLACK_NS,
            FOREVER_NS if end is None else end["at_ns"] + SLACK_NS,
        )

    def open_stream(
        self,
        rank: int,
        local_times: bool = False,
        before: bool = False,
        complete_only: bool = False,
    ) -> RankStream:
        """Return the records of one rank, as a single-use stream.

        `before`: add each record's previous record. `complete_only`: only from the time on when
        all ranks' rings are complete, and, on the joint clock, until the first log ends.
        """
        key = rank, local_times, before, complete_only
        if key not in self._sources:
            self._sources[key] = self._make_source(*key)
        return RankStream(self._sources[key], self.thread_chunks(rank), self._found)

    @cached_property
    def _sources(self) -> dict[tuple[int, bool, bool, bool], Source]:
        """Sources of the streams that were opened, by their options; windows share them."""
        return {}

    def _make_source(
        self, rank: int, local_times: bool, before: bool, complete_only: bool
    ) -> Source:
        since = until = None
        if complete_only:
            since = self._complete_from.get(rank) if local_times else self.complete_from_ns
            until = None if local_times else self.complete_until_ns
        clock = Clock() if local_times else self.clock_of(rank)
        return Source(
            rank,
            np.append(self.tables.shape_map(rank), -1),
            *self.possible_times(rank),
            None if clock.is_identity else clock,
            before,
            since,
            until,
        )

    @cached_property
    def recorded_communicators(self) -> list[Communicator]:
        """The communicators as batches have them: without the ranks whose records are all lost.

        The other ranks' waiting for each other is known; that for the lost ranks is not.
        """
        lost = self.ranks_without_records
        return [of.without_ranks(lost) if lost else of for of in self.tables.communicators]

    def batches(
        self,
        local_times: bool = False,
        batch: int = BATCH_RECORDS,
        before: bool = False,
        since_ns: int | None = None,
        until_ns: int | None = None,
    ) -> Iterator[Batch]:
        """Yield all instances in batches; `batch` bounds the number of records in memory.

        before: add each rank's previous record. since_ns: only instances with a first arrival from
        then on are guaranteed to be present and whole. Records from long before are not read.
        until_ns: the same of instances with a last arrival up to then, and of later records.
        """
        if self.dataset is not None and not local_times:
            self.repeat_problems()
            return self.dataset.batches(before, since_ns, until_ns)
        ranks = self._chunks_by_thread
        streams = {rank: self.open_stream(rank, local_times, before, True) for rank in ranks}
        passed = self.last_sequences if self.wrapped_chunks else None
        problems = self._found
        if since_ns is not None:
            problems = Problems()  # an instance cut at the start is no fault of the trace
            skip_to(streams.values(), since_ns)
        of = self.recorded_communicators, self.tables.shapes
        return iter(Matcher(streams, *of, problems, batch, passed, until_ns))

    @cached_property
    def dataset(self) -> Dataset | None:
        """The data set in the folder, or None; instances are read from it if it exists."""
        exists = (self.path / FILE_NAME).exists()
        return Dataset(self.path, self.recorded_communicators) if exists else None

    @cached_property
    def is_growing(self) -> bool:
        """Whether its processes may be writing, so that each process reads other records."""
        return any(isinstance(log.file, GrowingFile) for log in self.logs.opened)

    def note_problems(self, problems: Sequence[str], damaged: Sequence[bool]) -> None:
        """Note what another process found in the trace; damaged: of each log."""
        for line in problems:
            self._found.add(line)
        for log, is_damaged in zip(self.logs.opened, damaged, strict=True):
            log.damaged |= is_damaged

    def repeat_problems(self) -> None:
        """Repeat the problems of the logs that were found when the data set was written."""
        if self.dataset is not None:
            for line in self.dataset.problems:
                self._found.add(line)
            for log in self.logs.opened:
                log.damaged |= log.name in self.dataset.damaged
