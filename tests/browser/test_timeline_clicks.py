"""Clicks on the timeline select what is drawn under the pointer, at every zoom and grouping."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT
from support.dashboard_server import Browser, View, view
from support.dashboard_traces import MS
from support.synthetic import Synthetic

import mpiprof
from dashboard.timeline.tiles import MAX_ROWS

pytestmark = pytest.mark.slow

SCRIPT = (ROOT / "tests" / "support" / "timeline_clicks.js").read_text()
RANKS = (4, 128, 1024, 4096)
# The rows of 1024 and of 4096 ranks are groups.
CASES = [*RANKS[:-1], pytest.param(RANKS[-1], marks=pytest.mark.everything)]
CLICKS = 1000
WIDTH, HEIGHT = 1100, 620  # pixels of the rows
STEPS = 6


def random_trace(folder: Path, ranks: int) -> Path:
    """Write three collectives a step on 4 nodes: one has a late rank, one a root, one is even."""
    trace = Synthetic(ranks, [r * 4 // ranks for r in range(ranks)], (0,) * 4, (0.0,) * 4)
    random = np.random.default_rng(ranks)
    shape = (STEPS, ranks)
    arrival = 10 * MS + np.arange(STEPS)[:, None] * 60 * MS + random.integers(0, 4 * MS, shape)
    arrival[:, ranks // 3] += 20 * MS
    for operation, root in (("allreduce", -1), ("bcast", 0), ("barrier", -1)):
        last = arrival[:, :1] if root == 0 else arrival.max(1, keepdims=True)
        exits = np.maximum(last, arrival) + random.integers(MS // 10, MS, shape)
        trace.add_collective(
            operation, arrival, exits, root=root, site=f"app.py:{len(operation)}:f"
        )
        arrival = exits + random.integers(MS, 5 * MS, shape)
    trace.ended_ns = int(arrival.max())
    return trace.write(folder)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[View, Path]]:
    """Serve a trace of each size."""
    base = tmp_path_factory.mktemp("traces")
    with view([random_trace(base / f"r{ranks}", ranks) for ranks in RANKS]) as started:
        yield started, base


@pytest.mark.parametrize("ranks", CASES)
def test_random_clicks_select_what_is_drawn(
    chrome: Any, shown: tuple[View, Path], ranks: int
) -> None:
    """The call or mark at the pixel is the one painted last there.

    The trace has the call there. Waits for messages and other marks are drawn at random times.
    """
    served, base = shown
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    page = Browser(context.new_page(), served, f"/timeline?trace=r{ranks}")
    trace = mpiprof.open(base / f"r{ranks}")
    start = trace.calls_start_ns
    instances = trace.instances.reset_index(drop=True)
    number = {
        key: i
        for i, key in enumerate(zip(instances["communicator"], instances["sequence"], strict=True))
    }
    events = trace.events
    of = np.array([number[k] for k in zip(events["communicator"], events["sequence"], strict=True)])
    columns = events["rank"], events["enter_ns"] - start, events["exit_ns"] - start
    rank_of, enter, leave = (column.to_numpy(np.int64) for column in columns)
    kinds = set()
    for sort in ("rank", "nodes"):
        query = f"trace=r{ranks}&sort={sort}"
        answer = page.page.evaluate(SCRIPT, [query, CLICKS // 2, ranks, WIDTH, HEIGHT])
        assert answer["rows"] == (min(ranks, MAX_ROWS) if sort == "rank" else 4)
        assert answer["wrong"] == []
        assert len(answer["hits"]) > CLICKS / 10
        for kind, rank, low, high, *hit in answer["hits"]:
            kinds.add(kind)
            if kind == "cell":
                assert hit[0] <= high and hit[1] >= low
            if kind not in ("event", "late"):
                continue
            here = rank_of == rank
            if kind == "event":  # a call is at least one pixel wide
                here &= (enter <= high) & (leave + (high - low) >= low)
            assert hit[0] in of[here]
    assert kinds >= {"event", "late", "wait", "call", "cause"}
    assert page.complaints == []
    context.close()
