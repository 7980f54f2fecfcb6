"""Traces in which the records of whole ranks are lost: the other ranks' waiting stays known."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.page_traces import simulate, write_damaged
from support.synthetic import Synthetic, upgrade_folder

import mpiprof
from dashboard.timeline.build import open_or_build
from dashboard.timeline.window import Request, ResolvedRequest, Timeline
from mpiprof.__main__ import main
from mpiprof.account.division import divide_time
from mpiprof.causes.findings import make_verdict
from mpiprof.collectives.tune.tasks import list_works
from mpiprof.formats import cache
from mpiprof.reports.words import conclusion
from mpiprof.trace import Trace
from mpiprof.trace.types import Int

RANKS, INSTANCES = 6, 40


def lose(folder: Path, *ranks: int, whole: bool = False) -> Trace:
    """Open a trace without the logs of some ranks; whole: without their tables as well."""
    for rank in ranks:
        (folder / f"rank-{rank:06d}.log").unlink()
        if whole:
            (folder / f"rank-{rank:06d}.tables").unlink()
    return mpiprof.open(folder)


def write_rules(folder: Path) -> tuple[Path, dict[str, Int]]:
    """Write operations of all wait rules on 6 ranks; returns their arrivals as well.

    Rank 2 is the root. All calls end long after the last arrival.
    """
    trace, random = Synthetic(RANKS), np.random.default_rng(3)
    arrivals = {}
    for i, operation in enumerate(("allreduce", "barrier", "bcast", "reduce", "scan")):
        begin = (1 + i) * 10**9 + 10**7 * np.arange(INSTANCES)[:, None]
        arrivals[operation] = begin + random.integers(0, 10**6, (INSTANCES, RANKS))
        root = 2 if operation in ("bcast", "reduce") else None
        exits = np.broadcast_to(begin + 2 * 10**6, (INSTANCES, RANKS))
        trace.add_collective(operation, arrivals[operation], exits, root=root)
    return trace.write(folder), arrivals


def expected_waits(arrivals: dict[str, Int], present: list[int]) -> dict[str, int]:
    """Return the waiting of the present ranks for each other, from the arrivals alone."""
    waits = {}
    for operation, of_all in arrivals.items():
        of = of_all[:, present]
        last = of.max(1, keepdims=True)
        wait = last - of
        if operation == "bcast":
            wait = np.maximum(of_all[:, 2:3] - of, 0)
        elif operation == "reduce":
            wait = last - of_all[:, 2:3]
        elif operation == "scan":
            wait = np.maximum.accumulate(of, axis=1) - of
        waits[operation] = int(wait.sum())
    return waits


@pytest.mark.parametrize("lost", [(3,), (0, 5), (1, 3, 4)])
@pytest.mark.parametrize("whole", [False, True])
def test_ranks_with_records_wait_for_each_other(
    lost: tuple[int, ...], whole: bool, tmp_path: Path
) -> None:
    folder, arrivals = write_rules(tmp_path / "t")
    trace = lose(folder, *lost, whole=whole)
    assert trace.ranks_without_records == {*lost}
    table = trace.callsites.set_index("operation")
    assert (table["complete_instances"] == INSTANCES).all()
    present = [rank for rank in range(RANKS) if rank not in lost]
    assert table["total_wait_ns"].to_dict() == expected_waits(arrivals, present)
    totals = trace.rank_totals.groupby("operation")["total_wait_ns"].sum()
    assert totals.to_dict() == expected_waits(arrivals, present)


def test_without_the_records_of_the_root_its_operations_have_no_known_waits(tmp_path: Path) -> None:
    folder, arrivals = write_rules(tmp_path / "t")
    table = lose(folder, 2).callsites.set_index("operation")
    rooted = ["bcast", "reduce"]
    assert (table.loc[rooted, "complete_instances"] == 0).all()
    others = table["total_wait_ns"].drop(rooted)
    assert others.to_dict() == {
        name: wait
        for name, wait in expected_waits(arrivals, [0, 1, 3, 4, 5]).items()
        if name not in rooted
    }


def test_one_rank_alone_has_no_known_waits(tmp_path: Path) -> None:
    folder, _ = write_rules(tmp_path / "t")
    assert not lose(folder, 0, 1, 2, 3, 4).callsites["complete_instances"].any()


def test_a_rank_that_a_killed_job_has_never_heard_of_is_not_lost(tmp_path: Path) -> None:
    """It may be the one for which the others wait."""
    trace = Synthetic(4)
    trace.add_collective("barrier", [[5, 6, 7, -1]], [[0, 0, 0, 0]])
    folder = trace.write(tmp_path / "t", finished=False)
    trace_of_killed = lose(folder, 3, whole=True)
    assert trace_of_killed.ranks_without_records == set()
    assert not trace_of_killed.callsites["complete_instances"].any()


def test_the_first_sentences_name_the_late_rank(tmp_path: Path) -> None:
    folder = simulate(8, 5, 40).write(tmp_path / "t")
    upgrade_folder(folder)
    trace = lose(folder, 3)
    verdict = make_verdict(trace, trace.findings())
    assert verdict.worst is not None and verdict.worst.ranks == (5,)
    lines = conclusion.verdict_lines(trace, verdict)
    assert "of all ranks' time is known to be waiting" in lines[0]
    assert "rank 5 works" in lines[1]


def test_time_in_collectives_may_be_waiting_for_the_lost_rank(tmp_path: Path) -> None:
    """All wait for rank 5, of which nothing is known: no algorithm is advised."""
    folder = simulate(8, 5, 40).write(tmp_path / "t")
    upgrade_folder(folder)
    trace = lose(folder, 5)
    text = " ".join(conclusion.verdict_lines(trace, make_verdict(trace, trace.findings())))
    assert "or it is waiting for rank 5, whose calls are lost" in text
    assert "tune" not in text and "rank 5 works" not in text


def test_calls_without_all_ranks_are_said_to_be_unknown(tmp_path: Path) -> None:
    """The first half of an allreduce has no known waits, because a part of rank 1 is missing."""
    trace = Synthetic(4)
    arrivals = np.arange(1, 101)[:, None] * 10**9 + np.array([0, 0, 0, 5 * 10**8])
    absent = arrivals.copy()
    absent[:50, 1] = -1
    trace.add_collective("allreduce", absent, arrivals.max(1)[:, None] + [[9, 9, 9, 9]])
    trace.ended_ns = 102 * 10**9
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    lines = conclusion.verdict_lines(opened, make_verdict(opened, opened.findings()))
    assert "of all ranks' time is known to be waiting" in lines[0]
    # Of the incomplete instances, ranks 0 and 2 spend half of a second each.
    assert "A further 12 % is in collectives of which not all ranks' calls are in" in lines[-1]
    assert "all of it allreduce at app.py:1 main" in lines[-1]


def test_no_algorithm_is_simulated_with_fewer_ranks(tmp_path: Path) -> None:
    folder, _ = write_rules(tmp_path / "t")
    assert list_works(mpiprof.open(folder), 4)
    assert not list_works(lose(folder, 3), 4)


def test_runs_that_lack_different_ranks_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their sums over ranks differ, although nothing has changed."""
    for name in "ab":
        write_rules(tmp_path / name)
    lose(tmp_path / "b", 3)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "b lacks all calls of rank 3, so the collectives are not compared" in text
    assert "faster" not in text and "slower" not in text
    lose(tmp_path / "a", 3)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "not compared" not in " ".join(capsys.readouterr().out.split())


def test_the_time_of_a_lost_rank_is_no_computing(tmp_path: Path) -> None:
    folder, _ = write_rules(tmp_path / "t")
    whole = mpiprof.open(folder).efficiencies.iloc[0]
    trace = lose(folder, 3)
    parts = divide_time(trace).parts
    assert parts["unrecorded"] == trace.duration_ns
    assert sum(parts.values()) == pytest.approx(RANKS * trace.duration_ns)
    assert parts["work"] == pytest.approx(whole["useful_ns"] * 5 / 6, rel=1e-3)
    found = trace.efficiencies.iloc[0]
    assert found["useful_ns"] == pytest.approx(whole["useful_ns"] * 5 / 6, rel=1e-3)
    assert found["load_balance"] == pytest.approx(whole["load_balance"], rel=1e-3)


@pytest.mark.heavy
def test_a_data_set_has_the_same_waits(tmp_path: Path) -> None:
    folder, _ = write_rules(tmp_path / "t")
    known = lose(folder, 3).callsites
    assert main(["export", str(folder), "--to", "dataset", "-o", str(tmp_path / "d")]) == 0
    shutil.rmtree(folder)
    found = mpiprof.open(tmp_path / "d")
    names = ["operation", "instances", "complete_instances", "total_wait_ns", "total_elapsed_ns"]
    assert found.callsites[names].equals(known[names])


@pytest.mark.parametrize(("lost", "rows"), [((3,), [3]), ((0, 5), [0, 5])])
def test_the_timeline_marks_the_rows_of_lost_ranks(
    lost: tuple[int, ...], rows: list[int], tmp_path: Path
) -> None:
    """Their rows must not look like computing."""
    trace = lose(write_rules(tmp_path / "t")[0], *lost)
    key = cache.compute_key(trace)
    timeline = Timeline(trace, open_or_build(trace, key), key)
    wanted = Request(0, timeline.length_ns, 300, "operation", "rank", frozenset(), np.arange(RANKS))
    shown = timeline.resolve(wanted)
    assert isinstance(shown, ResolvedRequest)
    assert timeline.render_overview(wanted, shown)[0]["lost"] == rows


def test_costs_are_parts_of_the_known_waiting(tmp_path: Path) -> None:
    trace = mpiprof.open(write_damaged(tmp_path / "t"))
    waiting_ns = make_verdict(trace, []).waiting * trace.process_time_ns
    costs = [finding.cost_ns for finding in trace.findings()]
    assert len(costs) == 2 and min(costs) >= 0
    assert sum(costs) == pytest.approx(waiting_ns, rel=0.01)
