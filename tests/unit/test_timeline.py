"""The timeline's server, against sums computed event by event in plain Python."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.synthetic import Synthetic

import mpiprof
from dashboard.timeline import build as timeline_build
from dashboard.timeline import find as timeline_find
from dashboard.timeline import row_layout as timeline_rows
from dashboard.timeline import scratch as timeline_scratch
from dashboard.timeline import segments as timeline_events
from dashboard.timeline import sums as timeline_sums
from dashboard.timeline import tiles as timeline_tiles
from dashboard.timeline import window as timeline_window
from dashboard.timeline.window import MissingTiles, Request, Timeline
from mpiprof.formats import cache

RANKS = 6


def made(folder: Path, ranks: int = RANKS, loops: int = 60, seed: int = 1) -> Path:
    """Write a trace of blocking, nonblocking and open calls on three communicators."""
    random = np.random.default_rng(seed)
    trace = Synthetic(ranks, nodes=[r % 2 for r in range(ranks)], offsets=(0, 0), drifts=(0.0, 0.0))
    halves = [list(range(ranks // 2)), list(range(ranks // 2, ranks))]
    for name, members in zip(("low", "high"), halves, strict=True):
        trace.add_communicator(name, members)
    clock = np.full(ranks, 5_000, np.int64)

    def times(members: list[int], inside: int) -> tuple[Any, Any]:
        clock[members] += random.integers(10, 900, len(members))
        arrivals = clock[members].copy()
        clock[members] = np.maximum(arrivals.max(), arrivals) + random.integers(
            5, inside, len(members)
        )
        return arrivals, clock[members].copy()

    everybody = list(range(ranks))
    for loop in range(loops):
        trace.add_collective("allreduce", *times(everybody, 300), site="app.py:10:step")
        side = ("low", "high")[loop % 2]
        members = halves[loop % 2]
        root = int(random.integers(len(members)))
        trace.add_collective(
            "bcast", *times(members, 2_000), communicator=side, root=root, site="app.py:20:send"
        )
        if loop % 3 == 0:
            begin, call = times(everybody, 20)
            wait = times(everybody, 400)
            trace.add_collective(
                "iallreduce", begin, call, completions=wait, site="app.py:30:later"
            )
    last = clock + random.integers(1, 900, ranks)
    trace.add_collective("barrier", last, np.zeros(ranks, np.int64), site="app.py:40:end")
    trace.ended_ns = int(last.max()) + 7_000
    return trace.write(folder, finished=False)


def opened(folder: Path) -> Timeline:
    """Return the timeline of a trace, with a new cache."""
    trace = mpiprof.open(folder)
    key = cache.compute_key(trace)
    return Timeline(trace, timeline_build.open_or_build(trace, key), key)


def request(timeline: Timeline, **changes: Any) -> Request:
    """Return a request for the whole run by operation, changed."""
    whole: dict[str, Any] = {
        "begin": 0,
        "end": timeline.length_ns,
        "pixels": 100,
        "colour": "operation",
        "sort": "rank",
        "off": frozenset(),
        "ranks": np.arange(timeline.trace.ranks),
    }
    return Request(**(whole | changes))


def answer(timeline: Timeline, wanted: Request) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the content of a window, after making the tiles that it needs."""
    shown = timeline.resolve(wanted)
    if isinstance(shown, MissingTiles):
        timeline.build_tiles(shown, lambda _: None)
        shown = timeline.resolve(wanted)
    assert not isinstance(shown, MissingTiles)
    head, arrays = timeline.render_window(wanted, shown)
    return head, arrays


def segments_of(timeline: Timeline) -> list[dict[str, Any]]:
    """Return each rank's states with their times, from the trace's events and instances."""
    end = timeline.events.end_ns
    waits = {}
    for _, batch in enumerate(timeline.trace.batches()):
        for i in range(len(batch)):
            arrival, begin, finish = (
                m[:, i] for m in (batch.arrival_ns, batch.begin_ns, batch.exit_ns)
            )
            present = batch.shape[:, i] >= 0
            operation = timeline.trace.tables.shapes[int(batch.shape[present, i][0])].operation
            root = timeline.trace.tables.shapes[int(batch.shape[present, i][0])].root
            for row, rank in enumerate(batch.communicator.ranks.tolist()):
                cause = arrival.max()
                if operation == "bcast":
                    at = batch.communicator.find_column(root)
                    cause = begin[row] if row == at else arrival[at]
                wait = max(min(int(cause), int(finish[row])) - int(begin[row]), 0)
                key = (rank, batch.communicator.identity, int(batch.sequence[i]))
                waits[key] = wait if present.all() and finish[row] else 0
    rows = []
    for e in timeline.trace.events.to_dict("records"):
        key = (e["rank"], e["communicator"], e["sequence"])
        later = e["operation"].startswith("i")
        exit_ = end if pd.isna(e["exit_ns"]) else int(e["exit_ns"])
        base = {"rank": e["rank"], "operation": e["operation"], "communicator": e["communicator"]}
        wait = 0 if later else waits[key]
        rows.append(base | {"enter": int(e["enter_ns"]), "exit": exit_, "wait": wait})
        if later:
            enter, exit_ = int(e["completion_enter_ns"]), int(e["completion_exit_ns"])
            rows.append(base | {"enter": enter, "exit": exit_, "wait": waits[key]})
    return rows


def brute(timeline: Timeline, wanted: Request, level: int, first: int, columns: int) -> Any:
    """Return sums over ranks x columns by operation: count, inside, wait; in plain Python."""
    width, base = 1 << level, timeline.events.begin_ns
    sums: dict[tuple[int, int, str], list[float]] = {}
    for s in segments_of(timeline):
        if wanted.communicators and s["communicator"] not in wanted.communicators:
            continue
        if wanted.operations and s["operation"] not in wanted.operations:
            continue
        enter, exit_ = s["enter"] - base, s["exit"] - base
        for column in range(columns):
            low, high = (first + column) * width, (first + column + 1) * width
            inside = max(min(exit_, high) - max(enter, low), 0)
            wait = max(min(enter + s["wait"], high) - max(enter, low), 0)
            count = int(low <= enter < high)
            if inside or count:
                row = sums.setdefault((s["rank"], column, s["operation"]), [0, 0, 0])
                for i, value in enumerate((count, inside, wait)):
                    row[i] += value
    return sums


@pytest.fixture(params=["direct", "tiles"])
def timeline(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any) -> Timeline:
    """Return a timeline that sums its segments, or uses tiles."""
    monkeypatch.setattr(timeline_window, "MAX_EVENTS", 0)
    if request.param == "tiles":
        monkeypatch.setattr(timeline_tiles, "DIRECT_SEGMENTS", 40)
        monkeypatch.setattr(timeline_window, "DIRECT_LIMIT", 0)
        for module in (timeline_events, timeline_tiles, timeline_scratch):
            monkeypatch.setattr(module, "PIECE_SEGMENTS", 256)
    return opened(made(tmp_path / "trace"))


WINDOWS = [(0.0, 1.0, 100), (0.2, 0.7, 300), (0.41, 0.43, 64), (0.0, 1.0, 16)]


@pytest.mark.heavy
@pytest.mark.parametrize(("begin", "end", "pixels"), WINDOWS)
@pytest.mark.parametrize("filters", [{}, {"operations": ("bcast",)}, {"communicators": True}])
def test_sums_are_those_of_the_events(
    timeline: Timeline, begin: float, end: float, pixels: int, filters: dict[str, Any]
) -> None:
    length = timeline.length_ns
    if "communicators" in filters:
        low = next(c for c in timeline.trace.tables.communicators if c.ranks.tolist() == [0, 1, 2])
        filters = {"communicators": (low.identity,)}
    wanted = request(
        timeline, begin=int(begin * length), end=int(end * length), pixels=pixels, **filters
    )
    head, arrays = answer(timeline, wanted)
    assert head["kind"] == "cells"
    level, columns = head["level"], head["columns"]
    assert 0.7 <= (wanted.end - wanted.begin) / pixels / (1 << level) <= 1.42 or level == 0
    expected = brute(timeline, wanted, level, head["first"], columns)
    names = head["states"]
    for name, legend in zip(names, head["legend"], strict=True):
        of = [v for (_, _, n), v in expected.items() if n == name]
        assert legend["count"] == sum(v[0] for v in of)
        assert legend["inside"] == pytest.approx(sum(v[1] for v in of))
        assert legend["wait"] == pytest.approx(sum(v[2] for v in of))
        whole = RANKS * columns * (1 << level)
        assert legend["share"] == pytest.approx(sum(v[1] for v in of) / whole)
    cells = {name: a.reshape(RANKS, columns) for name, a in arrays.items()}
    for rank in range(RANKS):
        for column in range(columns):
            here = {n: expected.get((rank, column, n), [0, 0, 0]) for n in names}
            total = sum(v[1] for v in here.values())
            if not total:
                assert cells["state"][rank, column] == timeline_sums.NO_STATE
                continue
            chosen = here[names[cells["state"][rank, column]]]
            assert chosen[1] == max(v[1] for v in here.values())
            assert abs(cells["share"][rank, column] - min(total / (1 << level), 1) * 255) <= 1
            waited = sum(v[2] for v in here.values()) / total
            assert abs(cells["wait"][rank, column] - waited * 255) <= 1


def test_waiting_as_colour_splits_all_time(timeline: Timeline) -> None:
    by_operation, _ = answer(timeline, request(timeline))
    by_waiting, _ = answer(timeline, request(timeline, colour="waiting"))
    waiting, rest = by_waiting["legend"]
    total = {n: sum(s[n] for s in by_operation["legend"]) for n in ("inside", "wait")}
    assert waiting["inside"] == pytest.approx(total["wait"])
    assert rest["inside"] == pytest.approx(total["inside"] - total["wait"])
    assert waiting["inside"] > 0


def test_states_that_are_off_are_not_drawn_but_counted(timeline: Timeline) -> None:
    names = answer(timeline, request(timeline))[0]["states"]
    head, arrays = answer(timeline, request(timeline, off=frozenset(["allreduce", "barrier"])))
    drawn = {names[i] for i in np.unique(arrays["state"]).tolist() if i != timeline_sums.NO_STATE}
    assert drawn == {"bcast", "iallreduce"}
    assert dict(zip(names, head["legend"], strict=True))["allreduce"]["count"] == 60 * RANKS


def test_few_events_come_one_by_one(tmp_path: Path) -> None:
    timeline = opened(made(tmp_path / "trace"))
    begin, end = timeline.length_ns // 3, timeline.length_ns // 2
    head, arrays = answer(timeline, request(timeline, begin=begin, end=end, find="callsite:1"))
    assert head["kind"] == "events"
    got = [
        (int(e["row"]), int(e["enter"]), int(e["exit"]), int(e["wait"]), head["shapes"][e["shape"]])
        for e in arrays["events"]
    ]
    base = timeline.events.begin_ns
    expected = [
        (s["rank"], s["enter"] - base, s["exit"] - base, s["wait"], s["operation"])
        for s in segments_of(timeline)
        if s["enter"] - base < end and s["exit"] - base > begin
    ]
    assert sorted((r, a, b, w, s["operation"]) for r, a, b, w, s in got) == sorted(expected)
    site = timeline.events.meta["callsites"][1]
    for event in arrays["events"]:
        hit = bool(event["flags"] & timeline_window.MATCH_FLAG)
        assert hit == (head["shapes"][event["shape"]]["operation"] == site[0])
    total = sum(min(b, end) - max(a, begin) for _, a, b, _, _ in expected)
    assert sum(s["inside"] for s in head["legend"]) == pytest.approx(total)


def test_ranks_beyond_a_screen_are_grouped(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(timeline_rows, "MAX_ROWS", 2)
    monkeypatch.setattr(timeline_window, "MAX_EVENTS", 0)
    timeline = opened(made(tmp_path / "trace"))
    head, arrays = answer(timeline, request(timeline, pixels=50))
    shown = timeline.resolve(request(timeline))
    assert not isinstance(shown, MissingTiles)
    assert [r.tolist() for r in shown.rows.ranks] == [[0, 1, 2, 3], [4, 5]]
    assert [*map(timeline_rows.label_ranks, shown.rows.ranks)] == ["0–3", "4–5"]
    expected = assert_rows_show_latest_rank(timeline, head, arrays, ([0, 1, 2, 3], [4, 5]))
    sums = timeline.sum_legend(request(timeline), shown)
    for name, legend in zip(head["states"], sums, strict=True):  # of all ranks
        inside = sum(v[1] for (_, _, n), v in expected.items() if n == name)
        assert legend["inside"] == pytest.approx(inside)


def assert_rows_show_latest_rank(timeline: Timeline, head: Any, arrays: Any, rows: Any) -> Any:
    """Compare the share of each cell with the time of the row's latest rank; return all sums."""
    expected = brute(timeline, request(timeline), head["level"], head["first"], head["columns"])
    share = arrays["share"].reshape(len(rows), head["columns"])
    for row, ranks in enumerate(rows):
        latest = max(ranks, key=lambda rank: timeline.events.lateness[rank])
        for column in range(head["columns"]):
            of = [v[1] for (r, c, _), v in expected.items() if r == latest and c == column]
            assert abs(share[row, column] - sum(of) / (1 << head["level"]) * 255) <= 1
    return expected


def test_orders_of_ranks(tmp_path: Path) -> None:
    timeline = opened(made(tmp_path / "trace"))
    arrivals = {r: [] for r in range(RANKS)}  # type: ignore[var-annotated]
    for batch in timeline.trace.batches():
        if (batch.shape >= 0).all():
            for row, rank in enumerate(batch.communicator.ranks.tolist()):
                arrivals[rank] += (batch.arrival_ns[row] - batch.arrival_ns.mean(0)).tolist()
    late = {r: sum(v) / len(v) for r, v in arrivals.items()}
    known = [late[r] for r in range(RANKS)]
    assert timeline.events.lateness.tolist() == pytest.approx(known, abs=2)
    late_first = sorted(range(RANKS), key=lambda r: -late[r])
    node_first, by_rank = [0, 2, 4, 1, 3, 5], list(range(RANKS))
    for sort, expected in (("late", late_first), ("node", node_first), ("rank", by_rank)):
        shown = timeline.resolve(request(timeline, sort=sort))
        assert not isinstance(shown, MissingTiles)
        assert [int(r[0]) for r in shown.rows.ranks] == expected


def test_a_row_is_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_window, "MAX_EVENTS", 0)
    timeline = opened(made(tmp_path / "trace"))
    wanted = request(timeline, sort="nodes")
    shown = timeline.resolve(wanted)
    assert not isinstance(shown, MissingTiles)
    assert [r.tolist() for r in shown.rows.ranks] == [[0, 2, 4], [1, 3, 5]]
    head, arrays = timeline.render_window(wanted, shown)
    assert head["kind"] == "cells"
    assert_rows_show_latest_rank(timeline, head, arrays, ([0, 2, 4], [1, 3, 5]))


def test_many_nodes_share_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_rows, "MAX_ROWS", 1)
    timeline = opened(made(tmp_path / "trace"))
    late = timeline.events.lateness
    rows = timeline_rows.make_rows(timeline.trace, np.array([0, 2, 4, 1, 3, 5]), late, "nodes")
    assert [r.tolist() for r in rows.ranks] == [[0, 2, 4, 1, 3, 5]]
    assert timeline_rows.make_rows(timeline.trace, np.zeros(0, np.int64), late, "nodes").ranks == []


def test_instances_are_those_of_the_trace(tmp_path: Path) -> None:
    timeline = opened(made(tmp_path / "trace"))
    table = timeline.trace.instances
    assert timeline.events.instances == len(table)
    for number in (0, 1, 40, len(table) - 1):
        row, one = table.iloc[number], timeline_find.describe_instance(timeline, number)
        assert one["operation"] == row["operation"]
        assert one["first"] + timeline.events.begin_ns == row["first_arrival_ns"]
        assert one["callsite"] == row["callsite"]
        assert one["size"] == row["size"] == len(one["members"])
        if row["complete"]:
            assert one["wait"] == row["wait_ns"] == pytest.approx(sum(m[4] for m in one["members"]))
            assert [m[6] for m in one["members"]] == [0] * row["size"]  # threads
            assert one["end"] + timeline.events.begin_ns == row["last_exit_ns"]
        assert timeline_find.find_by_address(timeline, one["name"]) == number


def test_next_and_previous_stay_within_search_results(tmp_path: Path) -> None:
    timeline = opened(made(tmp_path / "trace"))
    table = timeline.trace.instances
    bcasts = table.index[table["operation"] == "bcast"].tolist()
    test = timeline_find.make_predicate(timeline, "operation:bcast", None, ())
    walked, number = [], -1
    while (number := timeline_find.find_next(timeline, number, -1, 1, test)) >= 0:
        walked.append(number)
    assert walked == bcasts
    assert timeline_find.find_next(timeline, bcasts[5], 0, -1, test) == bcasts[4]
    middle = int(table["first_arrival_ns"][bcasts[7]]) - timeline.events.begin_ns
    assert timeline_find.find_next(timeline, -1, middle, 1, test) == bcasts[7]
    callsite = int(table["callsite"][bcasts[0]])
    hits = timeline_find.search(timeline, "SEND app.py")
    assert [h["find"] for h in hits] == [f"callsite:{callsite}"]


def test_many_classes_are_joined_by_operation(tmp_path: Path) -> None:
    trace = Synthetic(4)
    for i in range(200):
        name = trace.add_communicator(f"c{i}", [0, 1])
        at = 2_000 + 100 * i
        trace.add_collective("allreduce", [at, at + 5], [at + 20, at + 21], communicator=name)
    trace.ended_ns = 30_000
    found = opened(trace.write(tmp_path / "trace"))
    assert len(found.classes.operation) <= timeline_tiles.MAX_CLASSES
    head, _ = answer(found, request(found))
    assert head["legend"][0]["count"] == 400
    last = found.trace.tables.communicators[-1].identity
    head, arrays = answer(found, request(found, communicators=(last,)))
    assert head["legend"][0]["count"] == 2
    assert len(arrays["events"]) == 2


def test_one_burst_in_a_long_run_needs_few_sums(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(timeline_tiles, "DIRECT_SEGMENTS", 4096)
    monkeypatch.setattr(timeline_window, "DIRECT_LIMIT", 0)
    trace = Synthetic(2)
    at = 10**9 + np.arange(20_000) * 50
    trace.add_collective("barrier", np.stack([at, at], 1), np.stack([at + 20, at + 30], 1), sent=0)
    trace.ended_ns = 10**12
    found = opened(trace.write(tmp_path / "trace"))
    need = found.resolve(request(found))
    assert isinstance(need, MissingTiles)
    found.build_tiles(need, lambda _: None)
    entry = cache.find(found.trace.path, need.name, found.key)
    assert entry is not None
    tiles = entry.read_array("tiles", "<i8")
    assert 0 < len(tiles) < 100
    assert tiles[:, 3].max() <= 2 * timeline_tiles.TILE_BINS
    monkeypatch.setattr(timeline_window, "MAX_EVENTS", 0)
    first = 10**9 - found.events.begin_ns
    head, _ = answer(found, request(found, begin=first, end=first + 100_000, pixels=1000))
    assert head["level"] == round(math.log2(100))
    assert head["legend"][0]["inside"] == pytest.approx(2000 * 50, rel=0.01)
    begun = np.sort(tiles[:, 0])
    assert begun[0] > 5  # no level finer than one with many segment starts per column


def test_summary_and_empty_traces_have_no_segments(tmp_path: Path) -> None:
    folder = Synthetic(3).write(tmp_path / "trace")
    timeline = opened(folder)
    assert timeline.events.meta["segments"] == 0
    assert timeline.events.instances == 0
