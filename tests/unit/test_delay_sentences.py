"""Words of findings from delays: which steps, which callers, and which code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program
from support.random_work import MS, Noise
from support.where_samples import add_samples

import mpiprof
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion, finding_sentences
from mpiprof.trace import Trace
from mpiprof.trace.sites import describe_sites, format_site

RANKS, STEPS, LATE_MS = 8, 200, 6
FEW = (11, 12, 60, 97, 140, 171, 189)  # steps
BOTH = pytest.mark.parametrize("messages", [True, False])


def lines_of(trace: Trace) -> str:
    return " ".join(conclusion.verdict_lines(trace, make_verdict(trace, trace.findings())))


def late_in_few_steps(messages: bool) -> Program:
    """Return steps, in a few of which rank 3 works longer."""
    program, noise, ring = Program(RANKS, intervals=True), Noise(RANKS), make_ring(RANKS)
    for step in range(STEPS):
        late = LATE_MS * MS * (np.arange(RANKS) == 3) * (step in FEW)
        if messages:
            program.halo(ring, noise.work() + late)
        program.collective("allreduce", "few.py:4:step", noise.work() + late * (not messages))
    return program


@pytest.mark.heavy
@BOTH
def test_the_steps_of_a_rare_delay_are_named(messages: bool, tmp_path: Path) -> None:
    trace = mpiprof.open(late_in_few_steps(messages).write(tmp_path / "t"))
    first = trace.findings()[0]
    assert first.ranks == (3,)
    text = finding_sentences.problem_sentence(trace, first)
    assert ", in 7 of 200 steps: 11 to 12, 60, 97, ..., 189: " in text


HELPER = "live.c:116:global_sum"


def helper_at_two_places(messages: bool, stack: bool) -> Program:
    """Return steps with two calls of one helper function; rank 2 works longer before the second."""
    program, noise, ring = Program(RANKS, intervals=True), Noise(RANKS), make_ring(RANKS)
    norm, residual = (f"{HELPER} < live.c:{line}:main" if stack else HELPER for line in (30, 44))
    late = LATE_MS * MS * (np.arange(RANKS) == 2)
    for _ in range(60):
        if messages:
            program.halo(ring, noise.work(spread=0.3))
        program.collective("allreduce", norm, noise.work())
        program.collective("allreduce", residual, noise.work() + late)
    return program


@BOTH
def test_callers_of_a_helper_function_are_named(messages: bool, tmp_path: Path) -> None:
    trace = mpiprof.open(helper_at_two_places(messages, stack=True).write(tmp_path / "t"))
    lines = lines_of(trace)
    norm, residual = (
        f"allreduce at live.c:116 global_sum (called at live.c:{line} main)" for line in (30, 44)
    )
    assert f"between {norm} and {residual}" in lines


@BOTH
def test_a_helper_function_without_a_stack_is_named_once(messages: bool, tmp_path: Path) -> None:
    trace = mpiprof.open(helper_at_two_places(messages, stack=False).write(tmp_path / "t"))
    lines = lines_of(trace)
    assert "between two calls of allreduce at live.c:116 global_sum" in lines


def frames(*texts: str) -> tuple[dict[str, object], ...]:
    places = (text.split(":") for text in texts)
    return tuple({"file": f, "line": int(n), "function": g} for f, n, g in places)


def test_a_site_names_the_first_caller_that_distinguishes_it() -> None:
    sites = [
        frames("a.c:1:sum", "a.c:9:norm", "a.c:20:main"),
        frames("a.c:1:sum", "a.c:9:norm", "a.c:30:main"),
        frames("a.c:2:max", "a.c:9:norm"),
        frames("a.c:3:min"),
    ]
    texts = [format_site(site) for site in describe_sites(sites, [[0, 1, 2, 3]])[0]]
    assert texts == [
        "a.c:1 sum (called at a.c:20 main)",
        "a.c:1 sum (called at a.c:30 main)",
        "a.c:2 max",
        "a.c:3 min",
    ]


def test_sampled_code_is_named(tmp_path: Path) -> None:
    program = helper_at_two_places(messages=True, stack=True)
    norm, residual = (f"{HELPER} < live.c:{line}:main" for line in (30, 44))
    add_samples(program.synthetic, 2, norm, residual, "live.c:71:assemble", 90, 60 * MS)
    trace = mpiprof.open(program.write(tmp_path / "t"))
    assert "100 % of that time it is in live.c:71 assemble (sampled)." in lines_of(trace)


def late_before_a_barrier(messages: bool) -> Program:
    """Return 25 steps in which rank 5 is late by varying times before a barrier."""
    program, noise, ring = Program(RANKS, intervals=True), Noise(RANKS), make_ring(RANKS)
    random = np.random.default_rng(3)
    for _ in range(25):
        late = (MS * (3 + random.exponential(4)) * (np.arange(RANKS) == 5)).astype(np.int64)
        if messages:
            program.halo(ring, noise.work() + late)
        program.collective("barrier", "io.c:7:flush", noise.work(20_000) + late * (not messages))
        program.collective("allreduce", "io.c:8:flush")
    return program


@BOTH
def test_findings_about_a_late_rank_do_not_contradict(messages: bool, tmp_path: Path) -> None:
    """The removal of the barrier is not advised before the delay that it shows."""
    trace = mpiprof.open(late_before_a_barrier(messages).write(tmp_path / "t"))
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("rank" if messages else "serial_section", (5,))
    texts = [finding_sentences.finding_text(trace, one) for one in trace.findings()]
    assert "varies too much" not in " ".join(texts)
    expected = "This holds in 25 of 25 steps.", "steadily", "25 times"
    assert any(text in texts[0] for text in expected)


@pytest.mark.parametrize("late_ms", [40, 8, 0])
def test_the_report_denies_a_common_cause_only_if_ranks_work_longest_in_turn(
    late_ms: int, tmp_path: Path
) -> None:
    """Few steps of few ranks prove that rank 1 is the cause if it has several times their work."""
    program, random = Program(3, intervals=True), np.random.default_rng(5)
    for _ in range(12):
        own = random.normal(10, 2, 3).clip(1) + random.normal(late_ms, late_ms / 4) * np.eye(3)[1]
        program.collective("barrier", "few.py:4:step", own * MS)
    said = lines_of(mpiprof.open(program.write(tmp_path / "t")))
    may_be = "one rank works longest more often than the others, which may be chance in 12 steps"
    assert ("rank 1 works" in said) == (late_ms == 40)
    assert (may_be in said) == (late_ms == 8)
    assert ("no rank consistently causes the waiting" in said) == (late_ms == 0)
    assert ("Record a longer run." in said) == (late_ms == 8)


def test_work_that_varies_without_limit_is_a_fact(tmp_path: Path) -> None:
    """Rank 0 waits for rank 1 in each message, by delays that vary too much to prove a habit."""
    program, random = Program(2, intervals=True), np.random.default_rng(2)
    for _ in range(10):
        program.work(np.array([MS, round((8 + 100 * random.random() ** 3) * MS)]))
        program.message([1], [0])
    said = lines_of(mpiprof.open(program.write(tmp_path / "t")))
    assert "rank 1 works alone for" in said and "10 times" in said
    assert "came about once" not in said
