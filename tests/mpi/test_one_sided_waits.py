"""Planted delays in calls on windows: which rank waits for which, in which state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.rank_pairs import list_waiting_pairs
from mpiprof.reports.message_table import local_section
from mpiprof.reports.words.message_sentences import describe_pair, name_waits

STEPS, LATE_NS = 12, 40_000_000  # as in one_sided_waits.c
RANKS = {"post": 2, "complete": 3, "fence": 3, "exclusive": 4, "shared": 4}


def recorded(mpi: Mpi, case: str, folder: Path) -> Any:
    program = compiled(mpi, "one_sided_waits.c", "-g")
    run_mpi(mpi, RANKS[case], prepare_run(["-q", "-o", folder], [program, case]), check=True)
    return mpiprof.open(folder)


def sums_of(trace: Any, states: set[str]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return number and time of the waits of at least half of a delay, by rank and awaited rank."""
    waits = trace.message_waits
    waits = waits[waits["state"].isin(states) & (waits["wait_ns"] >= LATE_NS // 2)]
    return {
        pair: (len(rows), int(rows["wait_ns"].sum()))
        for pair, rows in waits.groupby(["rank", "awaited"])
    }


def test_an_origin_waits_for_a_late_post_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = recorded(mpi, "post", tmp_path / "t")
    sums = sums_of(trace, {"late_post", "early_transfer"})
    assert sums.keys() == {(0, 1)}
    assert sums[0, 1][0] >= STEPS // 3
    _, table = local_section(trace, 20)
    assert "rank 1" in table, table
    delays = trace.delays
    worst = delays.iloc[0]
    assert worst["rank"] == 1 and worst["cost_ns"] >= 0.3 * STEPS * LATE_NS


def test_a_target_waits_for_a_late_complete_on_3_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = recorded(mpi, "complete", tmp_path / "t")
    sums = sums_of(trace, {"late_complete"})
    assert sums.keys() == {(0, 2)}
    assert sums[0, 2][0] >= STEPS // 3
    assert trace.delays.iloc[0]["rank"] == 2


def test_all_ranks_wait_at_a_fence_on_3_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = recorded(mpi, "fence", tmp_path / "t")
    fences = trace.callsites[trace.callsites["operation"] == "win_fence"]
    assert fences["total_wait_ns"].sum() >= 0.5 * 2 * STEPS * LATE_NS
    assert trace.delays.iloc[0]["rank"] == 2


@pytest.mark.parametrize("case", ["exclusive", "shared"])
def test_ranks_wait_for_the_holder_of_a_lock_on_4_ranks(
    case: str, mpi: Mpi, tmp_path: Path
) -> None:
    trace = recorded(mpi, case, tmp_path / "t")
    sums = sums_of(trace, {"lock_contention"})
    waiting = {2, 3} if case == "exclusive" else {3}
    # The lock of the rank that was first among both ends late for the other one, too.
    assert {rank for rank, _ in sums} == waiting
    assert {awaited for _, awaited in sums} - waiting == {1}
    assert trace.delays.iloc[0]["rank"] == 1
    waits = find_located_waits(trace)
    pairs = list_waiting_pairs(waits[waits["state"] == "lock_contention"])
    sentence = "".join(word for word, _ in describe_pair(trace, pairs.iloc[0]))
    assert " releases its lock, in " in sentence and "calls of win_" in sentence
    # Rank 3 also waits for a message of rank 2, for as long as rank 2 takes for its shared lock.
    assert name_waits(trace, 3).endswith("on windows")
