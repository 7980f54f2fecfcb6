"""Ranks that made more or fewer calls than the other ranks: the verdict names these calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.hang_traces import call, conclude, job, now, places

Step = tuple[str, int, str]  # operation, source line and datatype
NORM: Step = ("allreduce", 10, "MPI_DOUBLE")
HIGH: Step = ("allreduce", 17, "MPI_LONG")
LOW: Step = ("allreduce", 18, "MPI_LONG")
SUM: Step = ("reduce", 19, "MPI_LONG")
END: Step = ("barrier", 20, "")


def _program(folder: Path, ranks: Sequence[Sequence[Step]]) -> tuple[str, tuple[int, ...], str]:
    """Return class, odd ranks and text of a job whose ranks made some calls; the last is open."""
    synthetic = job(len(ranks))
    for rank, steps in enumerate(ranks):
        for i, (operation, line, datatype) in enumerate(steps):
            call(
                synthetic,
                rank,
                operation,
                sequence=3 + i,
                site=f"app.py:{line}:main",
                sent=8 if datatype else 0,
                type=datatype,
                ends=0 if i == len(steps) - 1 else 9_100,
            )
    verdict, text = conclude(synthetic, folder, now(*range(len(ranks))))
    if verdict.kind == "calls":
        assert set(places(verdict, folder)) <= {step[1] for steps in ranks for step in steps}
    return verdict.kind, verdict.odd_ranks, text


def test_a_rank_that_leaves_a_loop_early_made_a_call_fewer(tmp_path: Path) -> None:
    most = [NORM, NORM, NORM, HIGH, LOW]
    early = [NORM, NORM, HIGH, LOW, END]
    kind, ranks, text = _program(tmp_path, [most, most, early, most])
    assert (kind, ranks) == ("calls", (2,))
    assert text.startswith("Rank 2 made 1 fewer call of allreduce at app.py:10 main than the other")
    assert "(sequence 5 on MPI_COMM_WORLD)" in text


def test_a_rank_that_leaves_a_loop_late_made_calls_more(tmp_path: Path) -> None:
    most = [NORM, HIGH, LOW, SUM, END]
    late = [NORM, NORM, NORM, HIGH, LOW]
    kind, ranks, text = _program(tmp_path, [late, most, most])
    assert (kind, ranks) == ("calls", (0,))
    assert text.startswith("Rank 0 made 2 more calls of allreduce at app.py:10 main than the other")


def test_of_two_ranks_either_may_be_wrong(tmp_path: Path) -> None:
    kind, ranks, _ = _program(tmp_path, [[NORM, NORM, HIGH, LOW], [NORM, HIGH, LOW, END]])
    assert (kind, ranks) == ("calls", (0, 1))


def test_further_calls_of_a_step_are_counted(tmp_path: Path) -> None:
    most = [NORM, SUM, NORM, SUM, HIGH, LOW]
    early = [NORM, SUM, HIGH, LOW, END]
    _, ranks, text = _program(tmp_path, [most, most, early])
    assert ranks == (2,)
    assert "1 fewer call of allreduce at app.py:10 main and 1 further call than" in text


def test_call_sites_of_the_root_may_differ(tmp_path: Path) -> None:
    """The root calls at another line in every step; that is no divergence."""
    root_norm: Step = ("allreduce", 8, "MPI_DOUBLE")
    root = [root_norm, root_norm, root_norm, HIGH, LOW]
    most = [NORM, NORM, NORM, HIGH, LOW]
    early = [NORM, NORM, HIGH, LOW, END]
    kind, ranks, text = _program(tmp_path, [root, most, early, most])
    assert (kind, ranks) == ("calls", (2,))
    assert "1 fewer call of allreduce at app.py:10 main" in text


@pytest.mark.parametrize(
    "other",
    [
        [NORM, LOW, HIGH, END],  # exchanged calls: no shift explains both
        [NORM, SUM, LOW, END],  # another call at the same sequence number
        [NORM, SUM],  # the later calls are unknown
    ],
)
def test_calls_without_a_shift_are_different_calls(other: list[Step], tmp_path: Path) -> None:
    most = [NORM, HIGH, LOW, END]
    kind, _, _ = _program(tmp_path, [most, most, other])
    assert kind in ("operation", "none", "undecided")


def test_shifted_calls_without_a_fault_give_no_verdict(tmp_path: Path) -> None:
    """All calls agree in operation and arguments, so call sites alone show no fault."""
    synthetic = job(2)
    for rank, lines in enumerate(([10, 10, 11, 12], [10, 11, 12, 13])):
        for i, line in enumerate(lines):
            site = f"app.py:{line}:main"
            call(synthetic, rank, "barrier", sequence=3 + i, site=site, ends=9_100)
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1))
    assert verdict.kind == "none"
