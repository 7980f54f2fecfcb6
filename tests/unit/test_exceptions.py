"""Sentences on the Python exceptions of ranks, from synthetic traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.hang_traces import HERE, call, conclude, job, now
from support.jobs import run_verb
from support.synthetic import Synthetic

import mpiprof

FRAME = {"file": "/home/a/solve.py", "line": 88, "function": "step"}


def raise_in(synthetic: Synthetic, rank: int, **more: Any) -> None:
    """Add an exception to a rank's tables."""
    raised = {"at_ns": 9_500, "how": "uncaught", "type": "ValueError", "message": "bad shape"}
    line = {"rank": rank, "exception": {**raised, "frames": [FRAME], **more}}
    synthetic.lines[rank].append(line)


def lacking(**more: Any) -> Synthetic:
    """Return a job of 3 ranks in which rank 1 raised an exception and the others wait."""
    synthetic = job(3)
    for rank in (0, 2):
        call(synthetic, rank, "alltoall", site=HERE)
    call(synthetic, 1, "finalize", site="at exit (mpi4py):0:")
    raise_in(synthetic, 1, **more)
    return synthetic


@pytest.mark.parametrize("how", ["uncaught", "thread", "test", "abort"])
@pytest.mark.parametrize("frames", [[FRAME], []])
def test_the_verdict_begins_with_the_exception(
    how: str, frames: list[dict[str, Any]], tmp_path: Path
) -> None:
    synthetic = lacking(how=how, frames=frames)
    verdict, text = conclude(synthetic, tmp_path, now(0, 1, 2, after=100))
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,))
    first = text.partition(". ")[0].lower()
    assert "rank 1" in first and "ValueError (bad shape)".lower() in first, text
    assert ("solve.py:88 step" in first) == bool(frames)
    assert ("may be the reason" in text) == (how in ("thread", "test")), text


def test_an_exception_after_which_a_rank_calls_mpi_is_not_its_end(tmp_path: Path) -> None:
    """Python prints an exception also for programs that continue."""
    synthetic = lacking(at_ns=5_000)
    synthetic.lines[1].clear()
    for rank in (0, 2):
        raise_in(synthetic, rank, at_ns=5_000)
    text = conclude(synthetic, tmp_path, now(0, 1, 2, after=100))[1]
    assert "raised" not in text


def test_only_a_test_that_fails_on_some_ranks_is_named(tmp_path: Path) -> None:
    """All ranks fail in the first test, with messages of their own, and rank 1 in two more."""
    synthetic = lacking(how="test", at_ns=8_000)
    for rank in range(3):
        raise_in(synthetic, rank, how="test", at_ns=7_000, type="KeyError", message=str(rank))
    raise_in(synthetic, 1, how="test", at_ns=9_000, type="OSError")
    text = conclude(synthetic, tmp_path, now(0, 1, 2, after=100))[1]
    assert text.startswith("A test failed on rank 1: ValueError (bad shape) at solve.py:88 step. ")
    assert "KeyError" not in text and "OSError" not in text


def test_ranks_with_the_same_exception_share_a_sentence(tmp_path: Path) -> None:
    synthetic = job(4)
    for rank in range(4):
        raise_in(synthetic, rank, message="" if rank == 3 else "bad shape", at_ns=9_000 + rank)
    synthetic.write(tmp_path / "t")
    printed = run_verb("report", tmp_path / "t")[1]
    flat = " ".join(printed.split())
    assert "Ranks 0-2 raised ValueError (bad shape) at solve.py:88 step and have left." in flat
    assert "Rank 3 raised ValueError at solve.py:88 step and has left." in flat
    report = json.loads(run_verb("report", tmp_path / "t", "--json")[1])
    assert [raised["rank"] for raised in report["exceptions"]] == [0, 1, 2, 3]
    known = {"how": "uncaught", "type": "ValueError", "message": "bad shape"}
    assert report["exceptions"][0] == {"rank": 0, **known, **FRAME}


def test_a_hostile_or_damaged_exception_is_cleaned_or_skipped(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    raise_in(synthetic, 0, message="\x1b[31m" + "y" * 5000)
    raise_in(synthetic, 1, type=7)
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    (raised,) = trace.tables.exceptions[0]
    assert "\x1b" not in raised.message and len(raised.message) == 200
    assert 1 not in trace.tables.exceptions and trace.tables.truncated
