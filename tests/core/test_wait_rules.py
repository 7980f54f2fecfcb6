"""The wait rule of each operation, and all consumers of the rules."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import virtual_clock_model
from support.hang_traces import call, conclude, job, now
from support.late_traces import noise, one_site
from support.recorder_score import recorded, score_program
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account import columns
from mpiprof.account.wait_states import Group, earliest_exit, score_instances
from mpiprof.collectives.schedule import Problem
from mpiprof.core.generator.symbol_tables import natives_header
from mpiprof.facts.operations import OPERATIONS, WaitRule, awaited_ranks

ARRIVALS = np.array([[40], [10], [20], [90]])  # ranks x instances, ns
EXITS = np.full((4, 1), 100)
SCAN_SCORE = (60 + 60 + 60 + 10) / 4  # ranks 1 and 2 wait for rank 0
ALL_SCORE = 10.0  # all ranks wait for rank 3


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("ranks", [2, 5, 6])
def test_rules_agree_with_the_model_of_the_virtual_clock(operation: str, ranks: int) -> None:
    """The model, which was written independently, also covers inter-communicators."""
    kind = virtual_clock_model.OPERATIONS[operation]
    for communicator in virtual_clock_model.communicators(operation, ranks):
        order = virtual_clock_model.row(communicator, ranks)
        sizes = ((ranks + 1) // 2, ranks // 2) if communicator == "i" else (ranks, 0)
        rule = OPERATIONS[operation].wait_rule
        for root in range(sizes[0]):
            for row, rank in enumerate(order):
                causes = virtual_clock_model.causes_of(rank, kind, communicator, root, ranks)
                expected = {order.index(cause) for cause in causes}
                sources = sorted(expected) if rule is WaitRule.RANK_FOR_SOURCES else []
                found = awaited_ranks(rule, row, sizes, root, sources)
                assert set(found) | {row} == expected | {row}


@pytest.mark.parametrize("rule", WaitRule)
@pytest.mark.parametrize("sizes", [(1, 0), (4, 0), (7, 0), (3, 4)])
def test_the_earliest_exit_is_the_last_awaited_arrival(
    rule: WaitRule, sizes: tuple[int, int]
) -> None:
    random, size = np.random.default_rng(1), sum(sizes)
    sources = tuple([(row + 1) % size, (row + 3) % size] for row in range(size))
    for root in range(-1, size):
        group = Group(rule, sizes, root, sources)
        arrival = random.integers(0, 100, (size, 20))
        expected = arrival.copy()
        for row in range(size):
            for other in awaited_ranks(rule, row, sizes, root, sources[row]):
                expected[row] = np.maximum(expected[row], arrival[other])
        assert (np.broadcast_to(earliest_exit(arrival, group), arrival.shape) == expected).all()


# ---- one changed entry


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let all ranks wait for all in a scan and in a reduce."""
    with monkeypatch.context() as patch:
        for name in ("scan", "reduce"):
            entry = replace(OPERATIONS[name], wait_rule=WaitRule.ALL_FOR_ALL)
            patch.setitem(OPERATIONS, name, entry)
        importlib.reload(columns)
        yield
    importlib.reload(columns)


@pytest.fixture(params=[False, True], ids=["original", "changed"])
def is_changed(request: pytest.FixtureRequest) -> bool:
    """Run a test with the table of operations, and with two changed entries."""
    if request.param:
        request.getfixturevalue("changed")
    return bool(request.param)


@pytest.mark.heavy
def test_scores_of_tune_studies_and_recorder_follow(is_changed: bool, tmp_path: Path) -> None:
    expected = ALL_SCORE if is_changed else SCAN_SCORE
    assert score_instances("scan", ARRIVALS, EXITS, Problem(4, 8)).tolist() == [expected]
    program = score_program(tmp_path, natives_header("mpich"))
    found = recorded(program, "scan", (4, 0), 0, ARRIVALS, EXITS)
    assert found[0, 0] == int(expected)


def test_the_generated_c_differs_in_the_changed_entries_only(
    request: pytest.FixtureRequest,
) -> None:
    before = natives_header("openmpi").splitlines()
    request.getfixturevalue("changed")
    after = natives_header("openmpi").splitlines()
    differences = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert differences == [
        ("    WAIT_ROOT_FOR_ALL, \\", "    WAIT_ALL_FOR_ALL, \\"),
        ("    WAIT_RANK_FOR_LOWER, \\", "    WAIT_ALL_FOR_ALL, \\"),
    ]


def test_wait_states_follow(is_changed: bool, tmp_path: Path) -> None:
    synthetic = Synthetic(4)
    synthetic.add_collective("scan", 1000 + ARRIVALS.T, 1000 + EXITS.T)
    row = mpiprof.open(synthetic.write(tmp_path / "t")).instances.iloc[0]
    expected = (0, 50 + 80 + 70) if is_changed else (30 + 20, 0)
    assert (row["wait_early_scan_ns"], row["wait_nxn_ns"]) == expected


def test_dependences_of_schedules_follow(is_changed: bool, tmp_path: Path) -> None:
    """In a binary tree, rank 4 waits for rank 6; if all ranks wait for all, the tree is ignored."""
    synthetic = Synthetic(8)
    arrivals = np.full((1, 8), 1000)
    arrivals[0, 6] = 1100
    synthetic.add_collective(
        "reduce", arrivals, arrivals * 0 + 1200, root=0, algorithm="binary_tree"
    )
    totals = mpiprof.open(synthetic.write(tmp_path / "t")).rank_totals.set_index("rank")
    waiting = totals["total_wait_ns"][totals["total_wait_ns"] > 0].to_dict()
    assert waiting == dict.fromkeys(set(range(8)) - {6} if is_changed else {0, 4}, 100)


def test_the_wait_graph_of_a_hang_follows(is_changed: bool, tmp_path: Path) -> None:
    """Rank 0 has no lower rank to wait for; if all ranks wait for all, it is part of a circle."""
    synthetic = job(2)
    synthetic.add_communicator("other", [0, 1])
    call(synthetic, 0, "scan", communicator="other", sequence=0)
    call(synthetic, 1, "barrier")
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1))
    assert verdict.kind == ("order" if is_changed else "none")


def test_reports_and_columns_follow(is_changed: bool, tmp_path: Path) -> None:
    late = noise(50, 8, 0.01)
    late[:, 4] += 3
    trace = one_site(tmp_path, Synthetic(8), late, "scan")
    (first,) = (one for one in trace.findings() if one.ranks)
    assert first.ranks == (4,)
    waiting = 7 if is_changed else 3  # all other ranks, or those above it
    assert first.cost_ns == pytest.approx(49 * waiting * 3e6, rel=0.05)
    meanings = {column.name: column.meaning for column in columns.COLUMNS}
    assert (" scan" in meanings["wait_early_scan_ns"]) is not is_changed
    assert (" scan" in meanings["wait_nxn_ns"]) is is_changed


def test_bounds_of_clocks_follow(is_changed: bool, tmp_path: Path) -> None:
    """Only operations in which all ranks wait for all bound the clocks of two nodes."""
    synthetic = Synthetic(2, nodes=[0, 1], offsets=[0, 0], drifts=[0.0, 0.0])
    begins = np.arange(1, 51)[:, None] * 100_000_000
    synthetic.ended_ns = 5_100_000_000
    arrivals = begins + np.array([0, 1000])
    synthetic.add_collective("scan", arrivals, arrivals + 2000)
    error_ns = mpiprof.open(synthetic.write(tmp_path / "t")).clock_error_ns
    assert (error_ns < 1_000_000) is is_changed
