"""Picture of a time window of a trace, at the requested resolution."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from mpiprof.account.tables import communicator_names, label_sites
from mpiprof.formats import cache
from mpiprof.trace import Trace
from mpiprof.trace.types import Array, Float, Int

from . import row_layout
from .row_layout import SORTS, Classes, States, TimelineRows
from .segments import Events, Progress
from .sums import clip_segments, dominant_states, make_legend, split_waiting, sum_events
from .tiles import DIRECT_SEGMENTS, Tiles
from .tiles import build as build_tiles

MAX_EVENTS = 12_000  # maximum number of events in a window to send one by one
MAX_PIXELS = 8192
LEGEND_BINS = 256  # bins of a window over which the legend sums all ranks
WAIT_PRECISION = 2**-22  # of a wait, which has single precision
DIRECT_LIMIT = 8 * DIRECT_SEGMENTS  # maximum number of segments to sum without tiles
MAX_ROW_SETS = 8  # arrangements of ranks in rows that are kept
MAX_FIRST_ARRIVALS = 1 << 14  # that are kept
MATCH_FLAG = 4  # event flag: matches the search
EVENT = np.dtype(
    [
        ("enter", "<f8"),  # ns after the begin
        ("exit", "<f8"),
        ("wait", "<f4"),
        ("instance", "<i4"),
        ("shape", "<i4"),  # index into the answer's shapes
        ("awaited", "<i4"),  # the rank that the call waits for, -1 if it does not wait
        ("row", "<u2"),
        ("state", "u1"),
        ("flags", "u1"),
    ]
)
Picture: TypeAlias = tuple[dict[str, Any], dict[str, Array]]  # description and arrays of an answer


@dataclass(frozen=True)
class Request:
    """A window in ns after the begin, its width in pixels, sort order, colour and filters."""

    begin: int
    end: int
    pixels: int
    colour: str
    sort: str
    off: frozenset[str]
    ranks: Int
    communicators: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    find: str = ""


@dataclass(frozen=True)
class MissingTiles:
    """Tiles that must be built before a request can be answered: their name and mappings."""

    name: str
    row_of: Int
    class_of: Int


@dataclass(frozen=True)
class ResolvedRequest:
    """Resolved request: rows from the top, states, and the tiles to sum.

    tiles: sums over all ranks. drawn_tiles: sums over the drawn rank of each row; the same object
    if every rank has a row.
    """

    rows: TimelineRows
    tile_rows: Int  # for each row, its row number in both tiles
    classes: Classes
    states: States
    tiles: Tiles
    drawn_tiles: Tiles

    def segment_states(self, segments: Array) -> Int:
        """Return the state of each segment, negative if hidden."""
        cls = self.classes.of_shape[segments["shape"]]
        states: Int = np.where(cls >= 0, self.states.of_class[cls], -1)
        return states

    def time_in_states(self, segments: Array, colour: str, begin: int, end: int) -> dict[int, Int]:
        """Return per state the ns of each segment in a span, -1 if it is not in that state."""
        state = self.segment_states(segments)
        inside, wait = clip_segments(segments, begin, end)
        if colour != "waiting":
            return {i: np.where(state == i, inside, -1) for i in range(len(self.states.names))}
        parts = (wait, inside - wait)
        return {i: np.where((state >= 0) & (ns > 0), ns, -1) for i, ns in enumerate(parts)}


class Timeline:
    """Answers requests about one trace; `key` is the key of its cache entries."""

    def __init__(self, trace: Trace, events: Events, key: str) -> None:
        self.trace, self.events, self.key = trace, events, key
        self.classes = row_layout.classify_shapes(trace, events.calls)
        self.length_ns = max(events.end_ns - events.begin_ns, 1)
        self._tiles: dict[str, Tiles] = {}
        self._rows: dict[tuple[str, bytes], tuple[Int, TimelineRows]] = {}
        self._first_arrivals: dict[int, int] = {}

    @cached_property
    def sites(self) -> list[str]:
        """Label of each site; the last one is for an unknown site."""
        return label_sites(self.trace)

    @cached_property
    def communicators(self) -> list[str]:
        """Name of each communicator."""
        return communicator_names(self.trace)

    # Resolving requests

    def resolve(self, request: Request) -> ResolvedRequest | MissingTiles:
        """Return the resolved request, or the tiles to build first."""
        only = self.find_communicators(request.communicators)
        trace, classes = self.trace, self.classes
        if only is not None and not row_layout.distinguishes_communicators(classes, only, trace):
            classes = row_layout.classify_shapes(trace, self.events.calls, only)
        ranks, rows = self._arrange_rows(request.ranks, request.sort)
        _, everybody = self._arrange_rows(np.arange(trace.ranks, dtype=np.int64), SORTS[0])
        if everybody.has_single_ranks and rows.has_single_ranks:
            of_rank, tile_rows = everybody.of_rank, ranks
        else:
            of_rank, tile_rows = rows.of_rank, np.arange(len(rows.ranks))
        tiles = self._open_tiles(of_rank, classes.of_shape)
        if isinstance(tiles, MissingTiles):
            return tiles
        drawn_tiles = tiles
        if not rows.has_single_ranks:
            opened = self._open_tiles(rows.of_drawn, classes.of_shape)
            if isinstance(opened, MissingTiles):
                return opened
            drawn_tiles = opened
        states = row_layout.make_states(classes, request.colour, only, request.operations)
        return ResolvedRequest(rows, tile_rows, classes, states, tiles, drawn_tiles)

    def _arrange_rows(self, ranks: Int, sort: str) -> tuple[Int, TimelineRows]:
        """Return ranks in display order and their rows, kept for the next window."""
        key = sort, ranks.tobytes()
        stored = self._rows.get(key)  # other threads may clear the table
        if stored is None:
            ordered = row_layout.sort_ranks(self.trace, ranks, sort, self.events.lateness)
            rows = row_layout.make_rows(self.trace, ordered, self.events.lateness, sort)
            if len(self._rows) >= MAX_ROW_SETS:
                self._rows.clear()
            self._rows[key] = stored = ordered, rows
        return stored

    def find_instance_at(self, time_ns: int) -> int:
        """Return the first instance whose first arrival is at a time or later."""
        return bisect_left(range(self.events.instances), time_ns, key=self._read_first_arrival)

    def _read_first_arrival(self, number: int) -> int:
        """Return the first arrival at an instance; searches read the same instances again."""
        stored = self._first_arrivals.get(number)
        if stored is None:
            stored = int(self.events.read_instances(number, number + 1)["first_arrival"][0])
            if len(self._first_arrivals) >= MAX_FIRST_ARRIVALS:
                self._first_arrivals.clear()
            self._first_arrivals[number] = stored
        return stored

    def find_communicators(self, identities: Collection[str]) -> set[int] | None:
        """Return the communicators of some identities; None (all) if no identity is given."""
        if not identities:
            return None
        identity_set = set(identities)
        return {c.index for c in self.trace.tables.communicators if c.identity in identity_set}

    def _open_tiles(self, row_of: Int, class_of: Int) -> Tiles | MissingTiles:
        digest = hashlib.sha256(row_of.tobytes() + class_of.tobytes()).hexdigest()
        name = f"tiles.{digest[:12]}"
        if name not in self._tiles:
            entry = None
            begin, end = self.events.begin_ns, self.events.end_ns
            if self.events.estimate(begin, end + 1, row_of >= 0) > DIRECT_LIMIT:
                entry = cache.find(self.trace.path, name, self.key)
                if entry is None:
                    return MissingTiles(name, row_of, class_of)
            while len(self._tiles) >= 8:
                del self._tiles[next(iter(self._tiles))]
            self._tiles[name] = Tiles(self.events, entry, row_of, class_of)
        return self._tiles[name]

    def build_tiles(self, need: MissingTiles, progress: Progress) -> None:
        """Build the tiles that a request needs."""

        def fill(writer: cache.Writer) -> dict[str, Any]:
            return build_tiles(self.events, need.row_of, need.class_of, writer, progress)

        cache.make(self.trace.path, need.name, self.key, fill, most=6).close()

    # Answers

    def render_window(self, request: Request, resolved: ResolvedRequest) -> Picture:
        """Return the picture of a window: single events if there are few, else cells.

        Both show the drawn rank of each row. The legend sums over all ranks. It is None if rows are
        groups, because the sums over all ranks take longer; see `sum_legend`.
        """
        begin, end = self.clip_request(request)
        first, last = begin + self.events.begin_ns, end + self.events.begin_ns
        visible = resolved.rows.of_drawn >= 0
        if self.events.estimate(first, last, visible) <= 4 * MAX_EVENTS:
            segments, ranks = self.events.read_window(first, last, visible)
            if len(segments) <= MAX_EVENTS:
                window = (first, last)
                head, arrays = self._render_events(request, resolved, segments, ranks, window)
                return {"from": begin, "to": end, "states": resolved.states.names, **head}, arrays
        return self.render_cells(request, resolved)

    def clip_request(self, request: Request) -> tuple[int, int]:
        """Return the window of a request, clipped to the run."""
        begin = min(max(request.begin, 0), self.length_ns - 1)
        return begin, min(max(request.end, begin + 1), self.length_ns)

    def render_cells(self, request: Request, resolved: ResolvedRequest) -> Picture:
        """Return a window as rows x bins with the state of each cell; see `dominant_states`."""
        begin, end = self.clip_request(request)
        level = choose_level(end - begin, request.pixels)
        first, last = begin >> level, -(-end >> level)
        sums = self.compute_sums(resolved.drawn_tiles, resolved, request.colour, level, first, last)
        legend = None
        if resolved.rows.has_single_ranks:
            legend = make_legend(sums, float(len(resolved.rows.ranks)) * ((last - first) << level))
        on = np.array([name not in request.off for name in resolved.states.names], np.bool_)
        cells = dominant_states(sums, on, 1 << level, request.colour)
        head: dict[str, Any] = {"from": begin, "to": end, "states": resolved.states.names}
        head |= {"kind": "cells", "level": level, "first": first, "columns": last - first}
        return head | {"legend": legend}, cells

    def sum_legend(self, request: Request, resolved: ResolvedRequest) -> list[dict[str, float]]:
        """Return the legend of a window over all ranks, summed over about LEGEND_BINS bins."""
        begin, end = self.clip_request(request)
        level = choose_level(end - begin, LEGEND_BINS)
        first, last = begin >> level, -(-end >> level)
        sums = self.compute_sums(resolved.tiles, resolved, request.colour, level, first, last)
        members = sum(len(ranks) for ranks in resolved.rows.ranks)
        return make_legend(sums, float(members) * ((last - first) << level))

    def compute_sums(
        self,
        tiles: Tiles,
        resolved: ResolvedRequest,
        colour: str,
        level: int,
        first: int,
        last: int,
    ) -> Float:
        """Return SUMS x rows x bins x states, for bins first .. last - 1 of a level."""
        count = 1 if colour == "waiting" else len(resolved.states.names)
        sums = tiles.read_sums(level, first, last, resolved.states.of_class, max(count, 1))
        if not np.array_equal(resolved.tile_rows, np.arange(sums.shape[1])):
            sums = sums[:, resolved.tile_rows]
        return split_waiting(sums) if colour == "waiting" else sums

    def _render_events(
        self,
        request: Request,
        resolved: ResolvedRequest,
        segments: Array,
        ranks: Int,
        window: tuple[int, int],
    ) -> Picture:
        state, row = resolved.segment_states(segments), resolved.rows.of_drawn[ranks]
        parts = request.colour == "waiting"
        size = len(resolved.rows.ranks), 1 if parts else len(resolved.states.names)
        legend = None
        if resolved.rows.has_single_ranks:
            sums = sum_events(segments, row, state, window, size)
            sums = split_waiting(sums) if parts else sums
            legend = make_legend(sums, float(len(resolved.rows.ranks)) * (window[1] - window[0]))
        off = [i for i, name in enumerate(resolved.states.names) if name in request.off]
        good = (state >= 0) & (~np.isin(state, off) | parts)
        segments, state, row = segments[good], state[good], row[good]
        shapes, local = np.unique(segments["shape"], return_inverse=True)
        events = np.zeros(len(segments), EVENT)
        for name in ("enter", "exit"):
            events[name] = segments[name] - self.events.begin_ns
        events["wait"], events["instance"] = segments["wait"], segments["instance"]
        events["awaited"] = self.find_awaited(segments)
        events["shape"], events["row"], events["state"] = local, row, state
        events["flags"] = segments["flags"] & 3
        if request.find:
            hit = self.match_shapes(request.find)[segments["shape"]]
            events["flags"] |= np.where(hit, MATCH_FLAG, 0).astype(np.uint8)
        # Long calls first: the last call at a pixel is visible, and a short one is a pixel wide.
        events = np.take(events, np.argsort(events["enter"] - events["exit"], kind="stable"))
        described = [self.describe_shape(int(i)) for i in shapes.tolist()]
        return {"kind": "events", "legend": legend, "shapes": described}, {"events": events}

    def find_awaited(self, segments: Array) -> Int:
        """Return the rank that each segment waits for: the last one or the root; -1 if unknown."""
        row = self.events.read_instances_of(segments)
        until = segments["enter"] + segments["wait"].astype(np.float64)
        near = np.abs(until - row["last_arrival"]) <= 1 + segments["wait"] * WAIT_PRECISION
        roots = np.array([s.root for s in self.trace.tables.shapes] + [-1], np.int64)
        awaited = np.where(near, row["last_rank"], roots[segments["shape"]])
        return np.where(segments["wait"] > 0, awaited, -1)

    def describe_shape(self, index: int) -> dict[str, Any]:
        """Return the common properties of a shape's calls for display."""
        s = self.trace.tables.shapes[index]
        return {
            "operation": s.operation,
            "site": self.sites[s.site],
            "communicator": self.communicators[s.communicator],
            "root": s.root,
            "sent": s.sent,
            "received": s.received,
            "algorithm": s.algorithm,
            "flags": list(s.flags),
        }

    def match_shapes(self, find: str) -> Array:
        """Return whether each shape matches a search KIND:VALUE, such as callsite:3."""
        kind, _, value = find.partition(":")
        shapes = self.trace.tables.shapes
        table = self.events.meta.get("callsites", [])
        hit = [False] * len(shapes)
        if kind == "callsite" and value.isascii() and value.isdigit() and int(value) < len(table):
            operation, sites, _ = table[int(value)]
            hit = [s.operation == operation and s.site in sites for s in shapes]
        elif kind == "communicator":
            only = self.find_communicators([value]) or set()
            hit = [s.communicator in only for s in shapes]
        elif kind in ("operation", "algorithm"):
            hit = [getattr(s, kind).partition(":")[0] == value for s in shapes]
        return np.array([*hit, False], np.bool_)

    def render_overview(self, request: Request, resolved: ResolvedRequest) -> Picture:
        """Return the whole run as one strip: the share of all ranks in each state, per bin."""
        level = choose_level(self.length_ns, request.pixels)
        last = -(-self.length_ns >> level)
        sums = self.compute_sums(resolved.tiles, resolved, request.colour, level, 0, last)
        total_ns = max(sum(map(len, resolved.rows.ranks)), 1) * float(1 << level)
        share = np.clip(sums[1].sum(0) / total_ns, 0, 1)
        rows = resolved.rows.ranks
        node_ids = self.trace.node_ids
        node_number = {node: i for i, node in enumerate(dict.fromkeys(node_ids.values()))}
        head = {
            "level": level,
            "columns": last,
            "length": self.length_ns,
            "rows": [r.tolist() for r in rows],
            "labels": [row_layout.label_ranks(r) for r in rows],
            "hosts": [self._row_name(r, self._host_of) for r in rows],
            "switches": [self._row_name(r, self.trace.switches.get) for r in rows],
            "nodes": [node_number.get(node_ids.get(int(r[0]), ""), -1) for r in rows],
            "lost": self._find_lost_rows(rows),
            "late": np.nan_to_num(self.events.lateness[resolved.rows.drawn]).tolist(),
            "drawn": resolved.rows.drawn.tolist(),  # the rank that each row shows
            "states": resolved.states.names,
            "allRanks": self.trace.ranks,
            "segments": int(self.events.meta["segments"]),
            "instances": self.events.instances,
        }
        return head, {"shares": share.astype(np.float32)}

    def _find_lost_rows(self, rows: Sequence[Int]) -> list[int]:
        """Return the rows of ranks of which the trace has no records."""
        lost = self.trace.ranks_without_records
        return [row for row, ranks in enumerate(rows) if lost and lost.issuperset(ranks.tolist())]

    def _host_of(self, rank: int) -> str:
        return str(self.trace.tables.processes.get(rank, {}).get("host") or "?")

    def _row_name(self, ranks: Int, name_of: Callable[[int], str | None]) -> str:
        """Return the host or switch of a row's ranks, as "a +1" if there is a second one."""
        first, *further = dict.fromkeys(name_of(rank) or "" for rank in ranks.tolist())
        return f"{first} +{len(further)}" if further else first


def choose_level(length: int, pixels: int) -> int:
    """Return the level with bins nearest to a pixel."""
    width = max(length / max(pixels, 1), 1.0)
    return max(round(float(np.log2(width))), 0)
