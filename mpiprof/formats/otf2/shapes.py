"""The tables of one rank (communicators, call sites, shapes), and its calls as records.

Score-P counts the bytes that a process exchanges with all processes, including itself. This is n
times the vector in an allreduce and n times the contribution in an allgather. mpiprof counts the
vector and the contribution. For MPI_IN_PLACE Score-P counts only the other processes. Such sizes
are recognised because n - 1 divides them and n does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mpiprof.facts.operations import OPERATIONS, base_operation
from mpiprof.formats.otf2.calls import RankCalls
from mpiprof.formats.otf2.communicators import ArchiveCommunicators
from mpiprof.formats.otf2.definitions import ArchiveClock
from mpiprof.formats.otf2.library import NEVER, ROOT_NOBODY, ROOT_SELF, UNDEFINED
from mpiprof.formats.otf2.regions import OPERATION_NUMBERS, Regions
from mpiprof.trace.types import EXTENSION, NTH_START, OUTSIDE, RECEIVED, SENT, Array, Bool, Int
from mpiprof.trace.writer import RECORD_TYPE

# Operations to divide by the number of processes. The root of a broadcast receives nothing.
SENT_BY_ALL = ("allgather", "allgatherv", "allreduce", "bcast")
RECEIVED_BY_ALL = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block")


def convert_sizes(
    codes: Int,
    names: list[str],
    sent: Int,
    received: Int,
    members: Int,
    rank_in_group: Int,
    at_root: Bool,
) -> tuple[Int, Int]:
    """Return the bytes sent and received in mpiprof's convention; -1 stays unknown.

    codes: index of each call's operation in `names`. members: size of the (remote) group.
    """
    bases = [name.removesuffix("_init").removeprefix("i") for name in names]

    def of(*operations: str) -> Bool:
        matches: Bool = np.array([name in operations for name in bases], np.bool_)[codes]
        return matches

    sent = np.where(of(*SENT_BY_ALL), _share_without_own(sent, members), sent)
    received = np.where(of(*RECEIVED_BY_ALL), _share_without_own(received, members), received)
    received = np.where(of("bcast") & at_root, 0, received)
    scan, exscan = of("scan"), of("exscan")
    upwards = _divide_exactly(sent, members - rank_in_group - 1)
    downwards = _divide_exactly(received, rank_in_group)
    vector = np.where(rank_in_group + 1 < members, upwards, downwards)
    vector = np.where(scan, _divide_exactly(received, rank_in_group + 1), vector)
    received = np.where(scan | exscan, vector, received)
    received = np.where(exscan & (rank_in_group == 0), 0, received)
    return np.where(scan | exscan, vector, sent), received


def _divide_exactly(total: Int, parts: Int) -> Int:
    return np.where(total < 0, -1, total // np.maximum(parts, 1))


def _share_without_own(total: Int, members: Int) -> Int:
    other_members = np.maximum(members - 1, 1)
    in_place = (total % np.maximum(members, 1) != 0) & (total % other_members == 0)
    return _divide_exactly(total, np.where(in_place, other_members, members))


MAX_SHAPES = 1 << 12  # per rank; beyond, varying sizes are stored with the records
UINT32_MAX = (1 << 32) - 1


class RankTables:
    """Tables of one rank: the lines that its records refer to."""

    def __init__(self, rank: int, regions: Regions, communicators: ArchiveCommunicators) -> None:
        self.rank, self.regions, self.communicators = rank, regions, communicators
        self.lines: list[dict[str, Any]] = []
        self.shape_count = 0
        self._sites: dict[int, int | None] = {}
        for number in communicators.described_by(rank):
            self.lines += communicators.table_lines(number, rank)

    def find_operations(self, calls: Array) -> tuple[Int, list[str]]:
        """Return the index of each call's operation, and the operations ("" if not recorded)."""
        pairs = calls["region"].astype(np.int64) << 8 | calls["operation"]
        codes, distinct = pd.factorize(pairs)
        names = []
        for pair in distinct.tolist():
            region, operation = pair >> 8, pair & 0xFF
            recorded_operation = self.regions.shapes.get(region, {}).get("operation")
            name = recorded_operation or self.regions.operations.get(region, "")
            started = name in ("start", "startall")
            if (started or not name) and operation < len(OPERATION_NUMBERS):
                name = "i" * started + OPERATION_NUMBERS[operation]
            names.append("" if name in ("start", "startall") else name)
        return codes, names

    def make_records(
        self, rank_calls: RankCalls, operations: tuple[Int, list[str]], ticks: ArchiveClock
    ) -> tuple[Array, Int]:
        """Return the records of calls with communicators, in order, and their threads."""
        calls = rank_calls.calls
        sent, received = (_signed_size(calls[name]) for name in ("sent", "received"))
        if self.regions.score_p:
            arguments = (*operations, sent, received)
            groups = self.communicators.sizes_and_ranks(calls["communicator"], self.rank)
            sent, received = convert_sizes(*arguments, *groups, calls["root"] == groups[1])
        codes, distinct = _distinct_shapes(calls, sent, received)
        varying = len(distinct) > MAX_SHAPES
        if varying:
            unknown = np.full_like(sent, -1)
            codes, distinct = _distinct_shapes(calls, unknown, unknown)
        for shape, row in enumerate(distinct.tolist()):
            shape_sizes = [None if varying or n < 0 else int(n) for n in (sent[row], received[row])]
            self._add_shape(shape, calls[row], operations[1][operations[0][row]], *shape_sizes)
        self.shape_count = len(distinct)
        records = np.zeros(len(calls), RECORD_TYPE)
        records["enter_ns"] = ticks.times_to_ns(calls["enter"])
        records["exit_ns"] = ticks.times_to_ns(calls["exit"])
        records["sequence"], records["shape"] = calls["sequence"], codes
        outside = ticks.spans_to_ns(calls["outside"])
        records["outside_ns"] = np.minimum(outside, UINT32_MAX)
        records["thread"] = rank_calls.thread
        records["kind"], records["choice"] = calls["kind"], calls["choice"]
        wide = [
            (OUTSIDE, outside, outside > UINT32_MAX),
            (NTH_START, calls["start"], calls["start"] > 0),
        ]
        if varying:
            wide += [(SENT, sent, sent >= 0), (RECEIVED, received, received >= 0)]
        return _add_extensions(records, rank_calls.thread, wide)

    def _add_shape(
        self, shape: int, call: Any, operation: str, sent: int | None, received: int | None
    ) -> None:
        shape_facts = self.regions.shapes.get(int(call["region"]), {})
        optional = ("type", "reduction")
        communicator = int(call["communicator"])
        self.lines += self.communicators.table_lines(communicator, self.rank)
        self.lines.append(
            {
                "shape": shape,
                "operation": operation,
                "communicator": communicator,
                "site": self._add_site(int(call["site"])),
                "root": self._table_root(int(call["root"]), operation, communicator),
                "sent": sent,
                "received": received,
                "algorithm": shape_facts.get("algorithm", "native"),
                "flags": shape_facts.get("flags", []),
                **{name: shape_facts[name] for name in optional if shape_facts.get(name)},
            }
        )

    def add_message_shape(self, operation: str, communicator: int, site: int, peer: int) -> int:
        """Add the shape of calls on messages, and return its id; peer: -1 for none."""
        self.lines += self.communicators.table_lines(communicator, self.rank)
        self.lines.append(
            {
                "shape": self.shape_count,
                "operation": operation,
                "communicator": communicator,
                "site": self._add_site(site),
                "peer": None if peer < 0 else self.communicators.group_root(communicator, peer),
                "sent": None,
                "received": None,
                "algorithm": "native",
                "flags": [],
            }
        )
        self.shape_count += 1
        return self.shape_count - 1

    def _table_root(self, root: int, operation: str, communicator: int) -> int | None:
        properties = OPERATIONS.get(base_operation(operation))
        if root == UNDEFINED or (properties is not None and not properties.rooted):
            return None
        if root == ROOT_SELF:
            return -3
        if root == ROOT_NOBODY:
            return -2
        return self.communicators.group_root(communicator, root)

    def _add_site(self, region: int) -> int | None:
        if region not in self._sites:
            frames = None if region == UNDEFINED else self.regions.site_frames(region)
            self._sites[region] = None
            if frames is not None:
                number = sum(site is not None for site in self._sites.values())
                self._sites[region] = number
                self.lines.append({"site": number, "frames": frames})
        return self._sites[region]


def _signed_size(column: Array) -> Int:
    return np.where(column == NEVER, -1, np.minimum(column, 1 << 61).astype(np.int64))


def _distinct_shapes(calls: Array, sent: Int, received: Int) -> tuple[Int, Int]:
    """Return a number for each call, equal for equal shapes, and one call of each shape."""
    columns = [calls[name].astype(np.int64) for name in ("region", "site", "communicator", "root")]
    columns += [calls["operation"].astype(np.int64), sent, received]
    codes = np.zeros(len(calls), np.int64)
    for column in columns:
        part, values = pd.factorize(column)
        if len(values) > 1:
            codes = pd.factorize(codes * len(values) + part)[0].astype(np.int64)
    count = int(codes.max(initial=-1)) + 1
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first


def _add_extensions(
    records: Array, thread: Int, wide: list[tuple[int, Array, Bool]]
) -> tuple[Array, Int]:
    """Return the records, each preceded by its extensions."""
    if not any(bool(chosen.any()) for _, _, chosen in wide):
        return records, thread
    parts, places = [], []
    for extension, value, chosen in wide:
        rows = np.flatnonzero(chosen)
        entries = np.zeros(len(rows), RECORD_TYPE)
        entries["sequence"], entries["exit_ns"], entries["kind"] = extension, value[rows], EXTENSION
        entries["thread"] = thread[rows]
        parts.append(entries)
        places.append(rows)
    row = np.concatenate([*places, np.arange(len(records))])
    order = np.argsort(row, kind="stable")
    return np.concatenate([*parts, records])[order], thread[row[order]]
