"""Picture of a time window of a trace, at the requested resolution."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from mpiprof.metrics.tables import communicator_names, label_sites
from mpiprof.store import cache
from mpiprof.timeline import row_layout
from mpiprof.timeline.row_layout import Classes, Rows, States
from mpiprof.timeline.segments import Events, Progress
from mpiprof.timeline.tiles import DIRECT_SEGMENTS, SUMS, Tiles
from mpiprof.timeline.tiles import build as build_tiles
from mpiprof.trace import Trace
from mpiprof.trace.types import Array, Float, Int

MAX_EVENTS = 12_000  # maximum number of events in a window to send one by one
MAX_PIXELS = 8192
DIRECT_LIMIT = 8 * DIRECT_SEGMENTS  # maximum number of segments to sum without tiles
NO_STATE = 255  # state of a cell without any rank in a collective
MATCH_FLAG = 4  # event flag: matches the search
EVENT = np.dtype(
    [
        ("enter", "<f8"),  # ns after the begin
        ("exit", "<f8"),
        ("wait", "<f4"),
        ("instance", "<i4"),
        ("shape", "<i4"),  # index into the answer's shapes
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
    """Resolved request: rows from the top, states, and the tiles to sum."""

    rows: Rows
    tile_rows: Int  # for each row, its row number in the tiles
    classes: Classes
    states: States
    tiles: Tiles

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
        trace, known = self.trace, self.classes
        if only is not None and not row_layout.distinguishes_communicators(known, only, trace):
            known = row_layout.classify_shapes(trace, self.events.calls, only)
        ranks = row_layout.sort_ranks(trace, request.ranks, request.sort, self.events.lateness)
        rows = row_layout.make_rows(trace, ranks, request.sort)
        everybody = row_layout.make_rows(trace, np.arange(trace.ranks, dtype=np.int64))
        if everybody.has_single_ranks and rows.has_single_ranks:
            of_rank, tile_rows = everybody.of_rank, ranks
        else:
            of_rank, tile_rows = rows.of_rank, np.arange(len(rows.ranks))
        tiles = self._open_tiles(of_rank, known.of_shape)
        if isinstance(tiles, MissingTiles):
            return tiles
        states = row_layout.make_states(known, request.colour, only, request.operations)
        return ResolvedRequest(rows, tile_rows, known, states, tiles)

    def find_communicators(self, identities: Collection[str]) -> set[int] | None:
        """Return the communicators of some identities; None (all) if no identity is given."""
        if not identities:
            return None
        wanted = set(identities)
        return {c.index for c in self.trace.tables.communicators if c.identity in wanted}

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

    def render_window(self, request: Request, shown: ResolvedRequest) -> Picture:
        """Return the picture of a window: single events if there are few, else cells."""
        begin, end = self.clip_request(request)
        first, last = begin + self.events.begin_ns, end + self.events.begin_ns
        visible = shown.rows.of_rank >= 0
        if (
            shown.rows.has_single_ranks
            and self.events.estimate(first, last, visible) <= 4 * MAX_EVENTS
        ):
            segments, ranks = self.events.read_window(first, last, visible)
            if len(segments) <= MAX_EVENTS:
                window = (first, last)
                head, arrays = self._render_events(request, shown, segments, ranks, window)
                return {"from": begin, "to": end, "states": shown.states.names, **head}, arrays
        return self.render_cells(request, shown)

    def clip_request(self, request: Request) -> tuple[int, int]:
        """Return the window of a request, clipped to the run."""
        begin = min(max(request.begin, 0), self.length_ns - 1)
        return begin, min(max(request.end, begin + 1), self.length_ns)

    def render_cells(self, request: Request, shown: ResolvedRequest) -> Picture:
        """Return a window as rows x bins with the state of each cell; see `dominant_states`."""
        begin, end = self.clip_request(request)
        level = choose_level(end - begin, request.pixels)
        first, last = begin >> level, -(-end >> level)
        sums = self.compute_sums(shown, request.colour, level, first, last)
        members = np.array([len(r) for r in shown.rows.ranks], np.float64)
        legend = make_legend(sums, members.sum() * ((last - first) << level))
        on = np.array([name not in request.off for name in shown.states.names], np.bool_)
        cells = dominant_states(sums, on, members, 1 << level, request.colour)
        head: dict[str, Any] = {"from": begin, "to": end, "states": shown.states.names}
        head |= {"kind": "cells", "level": level, "first": first, "columns": last - first}
        return head | {"legend": legend}, cells

    def compute_sums(
        self, shown: ResolvedRequest, colour: str, level: int, first: int, last: int
    ) -> Float:
        """Return SUMS x rows x bins x states, for bins first .. last - 1 of a level."""
        count = 1 if colour == "waiting" else len(shown.states.names)
        sums = shown.tiles.read_sums(level, first, last, shown.states.of_class, max(count, 1))
        sums = sums[:, shown.tile_rows]
        return split_waiting(sums) if colour == "waiting" else sums

    def _render_events(
        self,
        request: Request,
        shown: ResolvedRequest,
        segments: Array,
        ranks: Int,
        window: tuple[int, int],
    ) -> Picture:
        state, row = shown.segment_states(segments), shown.rows.of_rank[ranks]
        parts = request.colour == "waiting"
        size = len(shown.rows.ranks), 1 if parts else len(shown.states.names)
        sums = sum_events(segments, row, state, window, size)
        sums = split_waiting(sums) if parts else sums
        legend = make_legend(sums, float(len(shown.rows.ranks)) * (window[1] - window[0]))
        off = [i for i, name in enumerate(shown.states.names) if name in request.off]
        good = (state >= 0) & (~np.isin(state, off) | parts)
        segments, state, row = segments[good], state[good], row[good]
        shapes, local = np.unique(segments["shape"], return_inverse=True)
        events = np.zeros(len(segments), EVENT)
        for name in ("enter", "exit"):
            events[name] = segments[name] - self.events.begin_ns
        events["wait"], events["instance"] = segments["wait"], segments["instance"]
        events["shape"], events["row"], events["state"] = local, row, state
        events["flags"] = segments["flags"] & 3
        if request.find:
            hit = self.match_shapes(request.find)[segments["shape"]]
            events["flags"] |= np.where(hit, MATCH_FLAG, 0).astype(np.uint8)
        described = [self.describe_shape(int(i)) for i in shapes.tolist()]
        return {"kind": "events", "legend": legend, "shapes": described}, {"events": events}

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
        known = self.events.meta.get("callsites", [])
        hit = [False] * len(shapes)
        if kind == "callsite" and value.isascii() and value.isdigit() and int(value) < len(known):
            operation, sites, _ = known[int(value)]
            hit = [s.operation == operation and s.site in sites for s in shapes]
        elif kind == "communicator":
            only = self.find_communicators([value]) or set()
            hit = [s.communicator in only for s in shapes]
        elif kind in ("operation", "algorithm"):
            hit = [getattr(s, kind).partition(":")[0] == value for s in shapes]
        return np.array([*hit, False], np.bool_)

    def render_overview(self, request: Request, shown: ResolvedRequest) -> Picture:
        """Return the whole run as one strip: the share of all ranks in each state, per bin."""
        level = choose_level(self.length_ns, request.pixels)
        last = -(-self.length_ns >> level)
        sums = self.compute_sums(shown, request.colour, level, 0, last)
        whole = max(sum(map(len, shown.rows.ranks)), 1) * float(1 << level)
        share = np.clip(sums[1].sum(0) / whole, 0, 1)
        rows = shown.rows.ranks
        lateness = np.nan_to_num(self.events.lateness, nan=-np.inf)
        latest = [int(r[lateness[r].argmax()]) for r in rows]
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
            "late": np.nan_to_num(self.events.lateness[latest]).tolist(),
            "latest": latest,  # the rank of each row that `late` is of
            "states": shown.states.names,
            "segments": int(self.events.meta["segments"]),
            "instances": self.events.instances,
        }
        return head, {"shares": share.astype(np.float32)}

    def _host_of(self, rank: int) -> str:
        return str(self.trace.tables.processes.get(rank, {}).get("host") or "?")

    def _row_name(self, ranks: Int, name_of: Callable[[int], str | None]) -> str:
        """Return the host or switch of a row's ranks, as "a +1" if there is a second one."""
        first, *more = dict.fromkeys(name_of(rank) or "" for rank in ranks.tolist())
        return f"{first} +{len(more)}" if more else first


def choose_level(length: int, pixels: int) -> int:
    """Return the level with bins nearest to a pixel."""
    width = max(length / max(pixels, 1), 1.0)
    return max(round(float(np.log2(width))), 0)


def split_waiting(sums: Float) -> Float:
    """Split sums of one state into two states: waiting, and the rest."""
    count, inside, wait = sums
    work = np.maximum(inside - wait, 0)
    return np.concatenate([[count, wait, wait], [count, work, np.zeros_like(work)]], axis=-1)


def dominant_states(
    sums: Float, on: Array, members: Float, width: int, colour: str
) -> dict[str, Array]:
    """Return the dominant state of each row and bin, the share of all states, and of waiting.

    Shares are 0 to 255: `share` of the bin's time of all the row's ranks, `wait` of the time
    inside.
    """
    inside = np.where(on, sums[1], 0.0)
    most = inside.argmax(2).astype(np.uint8)
    total = inside.sum(2)
    share = np.clip(total / (members[:, None] * width), 0, 1)
    wait = np.where(on, sums[2], 0.0).sum(2) if colour != "waiting" else np.zeros_like(total)
    some = total > 0
    waited = np.divide(wait, total, out=np.zeros_like(total), where=some)
    return {
        "state": np.where(some, most, NO_STATE).astype(np.uint8),
        # A non-empty cell stays visible, however short its time.
        "share": np.where(some, np.maximum(np.rint(share * 255), 1), 0).astype(np.uint8),
        "wait": np.rint(np.clip(waited, 0, 1) * 255).astype(np.uint8),
    }


def clip_segments(segments: Array, begin: int, end: int) -> tuple[Int, Int]:
    """Return the ns of each segment in a span, and the ns of waiting therein."""
    enter, leave = np.maximum(segments["enter"], begin), np.minimum(segments["exit"], end)
    waited = np.minimum(segments["enter"] + segments["wait"].astype(np.int64), leave)
    return np.maximum(leave - enter, 0), np.maximum(waited - enter, 0)


def sum_events(
    segments: Array, row: Int, state: Int, window: tuple[int, int], size: tuple[int, int]
) -> Float:
    """Return SUMS of single segments over a window: `size` rows x one bin x states."""
    good = state >= 0
    segments, cell = segments[good], row[good] * size[1] + state[good]
    inside, wait = clip_segments(segments, *window)
    starts = segments["enter"] >= window[0]
    sums = [np.bincount(cell, values, size[0] * size[1]) for values in (starts, inside, wait)]
    return np.array(sums, np.float64).reshape(len(SUMS), size[0], 1, size[1])


def make_legend(sums: Float, whole: float) -> list[dict[str, float]]:
    """Return calls that begin, time and wait in ns, and share of the whole, for each state."""
    return [
        {"count": count, "inside": inside, "wait": wait, "share": inside / max(whole, 1.0)}
        for count, inside, wait in sums.sum((1, 2)).T.tolist()
    ]
