"""Waits for messages of simulated programs, compared with their definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from support.neighbours import make_grid, make_ring
from support.program import Program

import mpiprof
from mpiprof.account.message_waits import MIN_RENDEZVOUS_BYTES
from mpiprof.trace.trace import Trace

RANKS, STEPS = 6, 8
Row: TypeAlias = dict[str, Any]


def define_waits(trace: Trace) -> list[tuple[int, ...]]:
    """Return call, message, rank, awaited rank, begin and end of each wait.

    Written for clarity: no order of passes, no arrays.
    """
    calls, messages = (table.to_dict("records") for table in (trace.message_calls, trace.messages))
    synchronous = {
        (of.communicator, of.peer, of.site) for of in trace.tables.shapes if "ssend" in of.operation
    }
    able: list[Row] = []
    for row, m in enumerate(messages):
        call = calls[m["call"]]
        peer = m["source"] if m["received"] else m["destination"]
        place = m["communicator"], peer, m["site_id"]
        is_large = m["bytes"] >= MIN_RENDEZVOUS_BYTES or place in synchronous
        if not m["complete"] or not (m["received"] or is_large) or call["exit_ns"] == 0:
            continue
        if not 0 <= peer < trace.ranks or peer == m["rank"] or m["partner"] < 0:
            continue
        posted = messages[m["partner"]]["posted_ns"]
        if posted <= call["exit_ns"] + trace.clock_error_ns:
            able.append({"row": row, "peer": peer, "call": m["call"], "posted": posted})
    waits: list[tuple[int, ...]] = []
    for number, call in enumerate(calls):
        mine = [m for m in able if m["call"] == number]
        if not mine:
            continue
        last = max(mine, key=lambda m: (m["posted"], m["row"]))
        until = min(last["posted"], call["exit_ns"])
        if until > call["enter_ns"] + trace.clock_error_ns:
            times = call["enter_ns"], until
            waits.append((number, last["row"], call["rank"], last["peer"], *times))
    return waits


def make_program(seed: int, intervals: bool) -> Program:
    """Return a program that exchanges messages in several ways, with random work."""
    random = np.random.default_rng(seed)
    program, ranks = Program(RANKS, intervals=intervals), np.arange(RANKS)

    def work() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return random.integers(1_000, 900_000, RANKS)

    for step in range(STEPS):
        program.halo(make_ring(RANKS), own_ns=work(), bytes_=[8, 4_000, 1 << 20][seed % 3])
        if seed % 2:
            program.work(work())
            program.message([0, 2], [1, 3], synchronous=step % 2 == 0)
            program.message([4], [5], any_source=True)
        program.work(work())
        program.message_to_wait(1, 4)
        program.sendrecv(np.roll(ranks, -1), np.roll(ranks, 1), own_ns=work())
        if step % 3 == 0:
            program.collective("allreduce", own_ns=work())
    return program


@pytest.mark.parametrize("intervals", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_waits_equal_those_of_the_definition(seed: int, intervals: bool, tmp_path: Path) -> None:
    trace = mpiprof.open(make_program(seed, intervals).write(tmp_path / "t"))
    table = trace.message_waits
    names = ("call", "message", "rank", "awaited", "begin_ns", "until_ns")
    found = list(zip(*(table[name].tolist() for name in names), strict=True))
    assert found == define_waits(trace)
    assert len(found) > STEPS


def test_waits_after_posted_receives_are_those_of_the_simulation(tmp_path: Path) -> None:
    """In each second step, the message was sent before its receive is posted."""
    program = Program(2, intervals=True)
    for step in range(30):
        program.work(np.array([900_000 * (step % 2), 300_000]))
        program.message_to_wait(0, 1)
    truth = program.make_truth()
    waits = mpiprof.open(program.write(tmp_path / "t")).message_waits
    expected = truth[(truth["operation"] == "wait") & (truth["wait_ns"] > 0)]
    assert waits["begin_ns"].tolist() == expected["enter_ns"].tolist()
    assert waits["wait_ns"].tolist() == expected["wait_ns"].tolist()


@pytest.mark.parametrize("tags", [(7,), (7, 8), (3, 4, 5)])
def test_waits_are_those_of_the_simulation_with_several_tags(
    tags: tuple[int, ...], tmp_path: Path
) -> None:
    random = np.random.default_rng(3)
    program, neighbours = Program(9, intervals=True), make_grid((3, 3), periodic=False)
    for step in range(30):
        for tag in tags:
            work = random.integers(900_000, 1_100_000, 9)
            work[4] += 3_000_000 * (step >= 10 and tag == tags[-1])
            program.halo(neighbours, own_ns=work, tag=tag)
    truth = program.make_truth()
    trace = mpiprof.open(program.write(tmp_path / "t"))
    expected = truth.loc[truth["operation"] == "waitall", "wait_ns"].sum()
    assert trace.message_waits["wait_ns"].sum() == pytest.approx(expected, rel=0.02)
