"""Loops of calls in vain in a program: one segment each, with their pauses, and no work in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.account.ledger import OUTSIDE

STEPS, LATE_NS = 20, 30_000_000  # as in polls.c
RANKS = {"master": 3}


def recorded(mpi: Mpi, case: str, folder: Path) -> tuple[Any, int, int]:
    """Return the trace, and what rank 0 measured: its calls in vain, and its work in ns."""
    program = compiled(mpi, "polls.c", "-g")
    words = prepare_run(["-q", "-o", folder], [program, case])
    done = run_mpi(mpi, RANKS.get(case, 2), words, check=True)
    line = next(line for line in done.stdout.splitlines() if line.replace(" ", "").isdigit())
    in_vain, worked_ns = map(int, line.split())
    return mpiprof.open(folder), in_vain, worked_ns


def segments_of(trace: Any) -> Any:
    (ledger,) = trace.ledgers(0)
    return ledger.segments


def length(segments: Any) -> int:
    return int((segments["end_ns"] - segments["begin_ns"]).sum())


@pytest.mark.parametrize("case", ["master", "spin", "sites", "overlap", "window"])
def test_each_call_in_vain_is_counted_on_2_or_3_ranks(case: str, mpi: Mpi, tmp_path: Path) -> None:
    trace, in_vain, _ = recorded(mpi, case, tmp_path / "t")
    assert in_vain >= STEPS
    assert int(segments_of(trace)["polls"].sum()) == in_vain
    rows = trace.message_calls
    rows = rows[rows["rank"] == 0]
    assert int(rows["polls"].sum()) == in_vain
    sums = trace.local_sums if case == "window" else trace.message_sums
    polled = ["iprobe", "test", "win_test"]
    calls = sums[(sums["rank"] == 0) & sums["operation"].isin(polled)]["calls"].sum()
    assert in_vain <= calls <= in_vain + STEPS * 2


@pytest.mark.parametrize("case", ["master", "spin", "sites"])
def test_a_rank_that_polls_waits_for_the_sender_on_2_or_3_ranks(
    case: str, mpi: Mpi, tmp_path: Path
) -> None:
    trace, _, _ = recorded(mpi, case, tmp_path / "t")
    segments = segments_of(trace)
    is_poll = segments["polls"] > 0
    polls = segments[is_poll]
    inside = segments[segments["begin_ns"] >= polls["begin_ns"][0]]
    inside = inside[inside["end_ns"] <= polls["end_ns"][-1]]
    # Pauses, and the time without a processor, belong to the polls.
    assert length(inside[inside["shape"] == OUTSIDE]) <= length(polls) / 4
    waits = trace.message_waits
    # It polls for any source, so it may receive an earlier message of the other sender later.
    waits = waits[(waits["rank"] == 0) & waits["state"].isin(["late_sender", "wrong_order"])]
    assert waits["wait_ns"].sum() >= STEPS * LATE_NS / 4
    assert set(waits["awaited"]) == set(range(1, RANKS.get(case, 2)))


def test_work_between_tests_is_work_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace, in_vain, worked_ns = recorded(mpi, "overlap", tmp_path / "t")
    segments = segments_of(trace)
    polls = segments[segments["polls"] > 0]
    assert len(polls) == in_vain == STEPS
    assert length(segments[segments["shape"] == OUTSIDE]) >= worked_ns


def test_a_target_that_tests_its_window_waits_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace, _, _ = recorded(mpi, "window", tmp_path / "t")
    waits = trace.message_waits
    waits = waits[(waits["rank"] == 0) & (waits["state"] == "late_complete")]
    if mpi.name == "openmpi":
        assert waits["wait_ns"].sum() >= STEPS * LATE_NS / 4
    assert set(waits["awaited"]) <= {1}


def test_the_last_partition_posts_a_message_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace, in_vain, _ = recorded(mpi, "partitions", tmp_path / "t")
    if not in_vain:
        pytest.skip("the library has no partitioned messages")
    assert int(segments_of(trace)["polls"].sum()) == in_vain
    calls, messages = trace.message_calls, trace.messages
    at = messages["call"].to_numpy()
    for name in ("operation", "enter_ns"):
        messages[name] = calls[name].to_numpy()[at]
    ready = calls[calls["operation"] == "pready_range"]["enter_ns"].to_numpy()
    sent = messages[~messages["received"] & (messages["bytes"] == 16)]
    assert sent["sure"].all() and sent["posted_ns"].tolist() == ready.tolist()
    received = messages[messages["received"] & (messages["bytes"] == 16) & messages["complete"]]
    assert len(received) == STEPS
    # Ordinary messages with the same tag are matched with each other.
    partners = messages.loc[received["partner"]]
    assert partners["posted_ns"].tolist() == ready.tolist()
    waits = trace.message_waits
    waits = waits[(waits["rank"] == 0) & waits["call"].isin(received["call"])]
    assert set(waits["state"]) <= {"late_sender", "wrong_order"}  # of the ordinary message
    assert set(waits["awaited"]) == {1}
    until = received.set_index("call").loc[waits["call"], "partner"]
    np.testing.assert_array_equal(waits["until_ns"], messages.loc[until, "posted_ns"])
    assert waits["wait_ns"].sum() >= STEPS // 2 * LATE_NS / 2


def test_a_killed_rank_polled_to_its_last_record_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "polls.c", "-g")
    words = prepare_run(["-q", "-o", tmp_path / "t"], [program, "killed"])
    assert run_mpi(mpi, 2, words).returncode != 0
    trace = mpiprof.open(tmp_path / "t")
    calls = trace.message_calls
    polled = calls[(calls["rank"] == 0) & (calls["polls"] > 0)].iloc[-1]
    segments = segments_of(trace)
    last = segments[segments["polls"] > 0][-1]
    assert last["end_ns"] == polled["exit_ns"] > segments["begin_ns"][0]
    assert last["polls"] == polled["polls"]
