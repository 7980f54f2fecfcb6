"""Work of blamed ranks, and its marks on the timeline, in a program with a known late rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.neighbours import make_ring
from support.program import Program

import mpiprof
from dashboard.timeline import build as timeline_build
from dashboard.timeline.late_ranks import find_late_ranks, list_causes, order_blamed_ranks
from dashboard.timeline.window import MissingTiles, Request, Timeline
from mpiprof.formats import cache
from mpiprof.trace import Trace

RANKS, LATE, STEPS, US = 8, 3, 30, 1_000
USUAL, EXTRA = 100 * US, 2_000 * US


def halo(folder: Path, extra: int, every: int = 1) -> Trace:
    """Return a trace of a halo exchange before an allreduce; one rank works longer."""
    program = Program(RANKS)
    for step in range(STEPS):
        late = extra * (np.arange(RANKS) == LATE) * (step % every == 0)
        program.halo(make_ring(RANKS), own_ns=np.full(RANKS, USUAL) + late, bytes_=4096)
        program.collective("allreduce")
    return mpiprof.open(program.write(folder))


@pytest.mark.parametrize("every", [1, 3])
def test_work_of_the_cause_is_marked_in_each_late_step(tmp_path: Path, every: int) -> None:
    """Victims, which are the last to arrive at the collective, are not marked."""
    trace = halo(tmp_path / "trace", EXTRA, every)
    work = trace.derive("blamed_work")
    assert work["rank"].tolist() == [LATE] * (STEPS // every)
    assert (work["end_ns"] - work["begin_ns"]).to_numpy() == pytest.approx(EXTRA, rel=0.01)
    assert (work["cost_ns"] > 5 * EXTRA).all()
    assert not trace.problems


def test_nobody_is_blamed_without_a_cause(tmp_path: Path) -> None:
    assert len(halo(tmp_path / "trace", 0).derive("blamed_work")) == 0


def test_marks_of_a_window_are_on_shown_ranks(tmp_path: Path) -> None:
    trace = halo(tmp_path / "trace", EXTRA)
    key = cache.compute_key(trace)
    timeline = Timeline(trace, timeline_build.open_or_build(trace, key), key)
    work = trace.derive("blamed_work")

    def listed(ranks: list[int], pixels: int = 1000) -> list[list[float]]:
        end = timeline.length_ns // 2
        wanted = Request(0, end, pixels, "operation", "rank", frozenset(), np.array(ranks))
        shown = timeline.resolve(wanted)
        assert not isinstance(shown, MissingTiles)
        found = find_late_ranks(timeline, wanted, shown)
        assert LATE not in {shown.rows.drawn[row] for _, row, *_ in found}
        return list_causes(timeline, wanted, shown, work)

    marks = listed(list(range(RANKS)))
    assert 0.4 * STEPS < len(marks) < 0.6 * STEPS
    assert {(rank, finding) for rank, _, _, finding, _ in marks} == {(LATE, 0)}
    assert [end - begin for _, begin, end, *_ in marks] == pytest.approx([EXTRA] * len(marks), 0.01)
    assert listed([0, 1, 2]) == listed(list(range(RANKS)), pixels=16) == []


def test_of_a_late_node_the_costliest_rank_comes_first() -> None:
    """A finding without marked work is left out; ranks of one with some follow by their cost."""
    work = pd.DataFrame({"finding": [0, 0, 2], "rank": [6, 6, 1], "cost_ns": [2.0, 3.0, 9.0]})
    assert order_blamed_ranks([(4, 5, 6), (9,), (1, 6)], work) == [6, 4, 5, 1]
