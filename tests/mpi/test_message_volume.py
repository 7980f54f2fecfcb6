"""Every message call of a fast program is in the trace, in few bytes, also if a rank is killed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import LONG_WITH_MPICH, Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.reports.words import trace_sentences

EXCHANGES = 20_000
MOST_BYTES = 16  # of a call, on average
WINDOWS_BYTES = 8 * 65536  # windows that threads fill, and the head of a log


def record(
    mpi: Mpi, folder: Path, end: str, *options: str, count: int = EXCHANGES
) -> mpiprof.Trace:
    program = compiled(mpi, "messages_many.c")
    words = prepare_run(["-q", *options, "-o", folder], [program, str(count), end])
    run_mpi(mpi, 2, words, check=end != "kill")
    return mpiprof.open(folder)


def test_every_call_is_recorded_in_few_bytes(mpi: Mpi, tmp_path: Path) -> None:
    trace = record(mpi, tmp_path / "t", "leave", "--messages", "all")
    assert trace.is_complete and trace.problems == []
    calls, messages = trace.message_calls, trace.messages
    for rank in range(2):
        of_rank = calls[calls["rank"] == rank]
        names = of_rank["operation"].tolist()
        pair = ["send", "recv"] if rank == 0 else ["recv", "send"]
        assert names == pair * EXCHANGES
        times = of_rank[["enter_ns", "exit_ns"]].to_numpy().ravel()
        assert (np.diff(times) >= 0).all()
        log = tmp_path / "t" / f"rank-{rank:06d}.log"
        assert log.stat().st_size - WINDOWS_BYTES < MOST_BYTES * 2 * EXCHANGES
    assert len(messages) == 4 * EXCHANGES
    assert (messages["partner"] >= 0).all()
    assert (messages["bytes"] == 4).all()


def test_a_killed_rank_loses_no_call(mpi: Mpi, tmp_path: Path) -> None:
    """The last calls are in the window, the others in packed chunks."""
    trace = record(mpi, tmp_path / "t", "kill", "--messages", "all")
    calls = trace.message_calls
    of_rank = calls[(calls["rank"] == 1) & (calls["exit_ns"] > 0)]
    assert len(of_rank) == 2 * EXCHANGES
    sums = trace.message_sums
    assert sums[sums["rank"] == 1]["calls"].sum() == 2 * EXCHANGES


@LONG_WITH_MPICH
def test_a_program_beyond_the_budget_is_recorded_in_windows(mpi: Mpi, tmp_path: Path) -> None:
    """Numbers of messages have no gap inside of a window.

    The limit is exceeded on slow machines, too, on which the budget of time is not.
    """
    trace = record(mpi, tmp_path / "t", "self", "--limit", "2M", count=375_000)
    assert trace.is_complete
    windows, share = trace.complete_windows, trace.complete_share
    assert windows is not None and share is not None
    assert windows and 1 / 16 < share < 1
    assert (np.diff(np.array(windows).ravel()) > 0).all()
    messages, calls = trace.messages, trace.message_calls
    enter_ns = calls["enter_ns"].to_numpy()[messages["call"]]
    exit_ns = calls["exit_ns"].to_numpy()[messages["call"]]
    for rank in range(2):
        of_rank = ((messages["rank"] == rank) & messages["received"]).to_numpy()
        numbers = messages["number"].to_numpy()[of_rank].astype(np.int64)
        assert len(numbers) > 0
        for begin, end in windows:
            inside = (exit_ns[of_rank] > begin) & (enter_ns[of_rank] < end)
            assert (np.diff(numbers[inside]) == 1).all()
    sentence = trace_sentences.message_record(trace)
    assert re.fullmatch(
        r"Message calls .* completely for .* % of the run, in \d+ windows?; .* scaled from there",
        sentence,
    )
