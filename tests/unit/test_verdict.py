"""The verdict: the first sentence names a planted cause, and chance is never accused."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from support import planted_traces
from support.cause_judgement import named_ranks
from support.planted_traces import Planted
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.habits.significance import p_above_zero, persistence_ratio
from mpiprof.diagnosis.finding import CAUSES
from mpiprof.diagnosis.phases import find_change_points
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.interface.format_units import format_share
from mpiprof.reports import conclusion, json, sentences
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

CASES = list(planted_traces.planted())
POSSIBLE = [one for one in CASES if planted_traces.is_possible(one)]
MS = planted_traces.MS


def test_there_are_64_planted_traces() -> None:
    assert len(CASES) == 64 and len({one.name for one in CASES}) == 64
    habits = {"rank", "early", "periodic", "moving", "gradient", "node", "noise"}
    assert {one.cause for one in CASES} == habits | {"long_work"}


@pytest.mark.heavy
@pytest.mark.parametrize("case", POSSIBLE, ids=[one.name for one in POSSIBLE])
def test_a_planted_cause_comes_first(tmp_path: Path, case: Planted) -> None:
    trace = mpiprof.open(case.write(tmp_path / "trace"))
    findings = trace.findings()
    first = findings[0]
    cause, ranks = planted_traces.IN_WORK.get(case.name, (case.cause, case.ranks))
    assert first.cause == cause
    if ranks is not None:
        assert sorted(first.ranks) == list(ranks)
    assert case.period is None or first.period == case.period
    printed = sentences.problem_sentence(trace, first)
    if case.first is not None and cause != "noise" and first.fact is None:
        assert first.first_instance is not None
        assert abs(first.first_instance - case.first) <= 3
    if cause in ("rank", "periodic", "long_work", "early") and len(ranks or ()) in range(1, 9):
        assert sorted(named_ranks(printed)) == list(ranks or ())
    assert "md.py:93 exchange" in printed
    if case.first and cause == "rank" and len(first.habit.spans) == 1:
        assert f"s {first.first_instance} to the end" in printed
    _consistent(trace)


def _consistent(trace: Trace) -> None:
    """Check that no statement on a trace is impossible, or contradicts another."""
    findings = trace.findings()
    waiting = float(trace.callsites["total_wait_ns"].sum())
    assert sum(one.cost_ns for one in findings) <= waiting * (1 + 1e-9) + len(findings)
    for one in findings:
        assert one.cause in CAUSES and 0 <= one.share <= 1 and 0 <= one.certainty <= 1
        text = sentences.finding_text(trace, one)
        assert not re.search(r"\bnan\b| -\d|None", text)
        late = getattr(one.evidence, "late_instances", None)
        assert late is None or 0 < late <= one.habit.instances
    lines = conclusion.verdict_lines(trace, make_verdict(trace, findings))
    assert 1 < len(lines) <= 4  # the last one may list further causes
    reported = json.verdict_as_data(trace, make_verdict(trace, findings))
    assert reported["text"] == lines
    if reported["cause"] != "none":
        assert (reported["cause"], reported["ranks"]) == (
            findings[0].cause,
            sorted(findings[0].ranks),
        )


# Chance


def wandering(random: np.random.Generator, count: int, ranks: int, keeps: float) -> Float:
    """Return lateness that retains a part of the previous instance's: AR(1), variance 1."""
    found = random.normal(0, 1, (count, ranks))
    for i in range(1, count):
        found[i] = keeps * found[i - 1] + np.sqrt(1 - keeps**2) * found[i]
    return found


def accused(folder: Path, traces: int, ranks: int, keeps: float) -> int:
    """Return the number of noise traces in which any rank is named."""
    found = 0
    for seed in range(traces):
        late = 5 + wandering(np.random.default_rng(seed), 200, ranks, keeps)
        trace = mpiprof.open(Planted("noise", late, "noise").write(folder / str(seed)))
        found += any(one.ranks for one in trace.findings())
        _consistent(trace)
        shutil.rmtree(folder / str(seed))
    return found


@pytest.mark.heavy
@pytest.mark.parametrize(("ranks", "keeps"), [(2, 0.0), (2, 0.9), (8, 0.5), (8, 0.9), (64, 0.9)])
def test_noise_accuses_nobody(tmp_path: Path, ranks: int, keeps: float) -> None:
    """At most 5 % of traces of noise name a rank, even if ranks wander."""
    assert accused(tmp_path, 20, ranks, keeps) <= 1


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [2, 8, 64, 512])
@pytest.mark.parametrize("keeps", [0.0, 0.5, 0.9])
def test_noise_accuses_nobody_in_95_of_100(tmp_path: Path, ranks: int, keeps: float) -> None:
    assert accused(tmp_path, 100, ranks, keeps) <= 5


@pytest.mark.heavy
def test_who_wanders_is_not_accused(tmp_path: Path) -> None:
    """One of several ranks on random walks is always far ahead for a while, which is no cause."""
    named = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        walks = np.cumsum(random.normal(0, 0.1, (300, 8)), axis=0)
        late = 20 + walks + random.normal(0, 0.1, walks.shape)
        trace = mpiprof.open(Planted("walk", late, "noise").write(tmp_path / str(seed)))
        named += any(one.ranks for one in trace.findings())
    assert named <= 1


@pytest.mark.heavy
def test_spikes_do_not_hide_a_late_rank(tmp_path: Path) -> None:
    """Rank 1 is last in most instances; the other ranks' rare long delays cost more."""
    missed = 0
    for seed in range(10):
        late = 1 + 3 * np.random.default_rng(seed).pareto(1.2, (50, 4))
        late[:, 1] += 20
        trace = mpiprof.open(Planted("spikes", late, "rank").write(tmp_path / str(seed)))
        missed += not any(1 in one.ranks for one in trace.findings())
    assert missed <= 1


def test_the_verdict_names_a_certain_cause_before_an_uncertain_one(tmp_path: Path) -> None:
    """Spikes cost more, but their cause is uncertain. Rank 1 certainly costs something."""
    late = 1 + 3 * np.random.default_rng(2).pareto(1.2, (50, 4))
    late[:, 1] += 20
    trace = mpiprof.open(Planted("spikes", late, "rank").write(tmp_path / "t"))
    findings = trace.findings()
    assert [(one.cause, one.ranks) for one in findings] == [("rank", (1,)), ("noise", ())]
    assert findings[0].certainty > 0.99 and findings[1].certainty == 0
    assert findings[0].cost_ns < findings[1].cost_ns
    concluded = make_verdict(trace, findings)
    assert concluded.cause == "rank"
    _, first, second = conclusion.verdict_lines(trace, concluded)
    sure, unsure = (format_share(one.share / concluded.waiting) for one in findings)
    assert first.startswith(f"{sure} of it has a sure cause: rank 1 works ")
    assert first.endswith("No algorithm would help: it is the load.")
    assert second.startswith(f"{unsure} of it has no sure cause: no rank consistently causes ")


def test_the_verdict_reports_a_single_event(tmp_path: Path) -> None:
    late = np.ones((1, 6))
    late[0, 4] = 9
    trace = mpiprof.open(Planted("one", late, "long_work").write(tmp_path / "t"))
    lines = conclusion.verdict_lines(trace, make_verdict(trace, trace.findings()))
    assert lines[1].startswith("Nearly all of it: once, at 0 ns, rank 4 works 49.0 ms instead of ")


@pytest.mark.heavy
@pytest.mark.parametrize("keeps", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("traces", [100, pytest.param(1000, marks=pytest.mark.everything)])
def test_wandering_is_no_change(keeps: float, traces: int) -> None:
    changed = 0
    for seed in range(traces):
        values = wandering(np.random.default_rng(seed), 400, 8, keeps)
        spread = np.log(np.ptp(values, axis=1))
        changed += len(find_change_points(spread, values.argmax(1))) > 0
    assert changed <= traces // 20


def test_p_values_are_calibrated() -> None:
    """For series without a mean, chance is accepted as the cause in about the right share."""
    random = np.random.default_rng(5)
    for keeps in (0.0, 0.5, 0.9):
        p = p_above_zero(wandering(random, 400, 2000, keeps).T)
        assert (p < 0.01).mean() < 0.02
        assert (p < 0.1).mean() < 0.12
    shifted = random.normal(0.7, 1, (200, 100))
    assert (p_above_zero(shifted) < 0.01).mean() > 0.9


def test_persistence() -> None:
    """For AR(1) it tends to (1 + r) / (1 - r) squared over its own; for steps it stays small."""
    random = np.random.default_rng(7)
    assert persistence_ratio(random.normal(0, 1, 4000)) < 1.6
    assert persistence_ratio(wandering(random, 4000, 1, 0.9)[:, 0]) > 20
    step = random.normal(0, 1, 400)
    step[150:] += 4
    assert persistence_ratio(step) < 6


# Single wrong statements


def test_nothing_to_gain(tmp_path: Path) -> None:
    late = planted_traces.noise(np.random.default_rng(1), 50, 4, 0.001)
    trace = mpiprof.open(Planted("quiet", late, "noise").write(tmp_path / "t"))
    verdict = make_verdict(trace, trace.findings())
    assert verdict.cause == "none" and verdict.worst is None
    lines = conclusion.verdict_lines(trace, verdict)
    assert lines[0] == "<1 % of all ranks' time is waiting in collectives."
    assert lines[1].startswith("Nothing stands out")


def test_the_verdict_has_three_lines(tmp_path: Path) -> None:
    late = planted_traces.noise(np.random.default_rng(1), 100, 4)
    late[:, 2] += 30
    trace = mpiprof.open(Planted("late", late, "rank").write(tmp_path / "t"))
    lines = conclusion.verdict_lines(trace, make_verdict(trace, trace.findings()))
    assert re.fullmatch(r"5\d % of all ranks' time is waiting in collectives\.", lines[0])
    assert lines[1].startswith("Nearly all of it: rank 2 works 30.")
    assert "between two calls of allreduce at md.py:93 exchange, in each step. With" in lines[1]
    # 3 of 4 ranks wait 30 ms in each of 100 instances.
    assert trace.findings()[0].saved_ns == pytest.approx(100 * 30 * MS, rel=0.02)
    assert "the run would take 1." in lines[1]
    assert lines[2].endswith("No algorithm would help: it is the load.")


def inside(synthetic: Synthetic, count: int) -> int:
    """Add pairs of collectives; the first delays rank 4, so that it is late at the second."""
    random, now = np.random.default_rng(3), 10 * MS
    for _ in range(count):
        a = now + 5 * MS + random.integers(0, 50_000, 6)
        leave = np.full(6, a.max() + 100_000)
        leave[4] += 4 * MS
        synthetic.add_collective("allgather", a, leave, site="md.py:71:spread")
        b = leave + MS + random.integers(0, 50_000, 6)
        synthetic.add_collective(
            "allreduce", b, np.full(6, b.max() + 30_000), site="md.py:93:exchange"
        )
        now = int(b.max()) + 30_000
    return now


def test_lateness_made_inside_a_collective_is_not_the_ranks_load(tmp_path: Path) -> None:
    synthetic = Synthetic(6)
    synthetic.ended_ns = inside(synthetic, 80) + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    first = trace.findings()[0]
    names = trace.callsites["operation"].tolist()
    assert (first.cause, first.ranks) == ("inside", (4,))
    assert names[first.callsites[0]] == "allreduce"
    printed = sentences.finding_text(trace, first)
    assert printed.startswith("Rank 4 spends 4.0") and " inside allgather at md.py:71 " in printed
    assert " Look at the algorithm and the sizes of allgather at md.py:71 spread" in printed
    assert "works" not in printed


def test_one_cause_at_several_call_sites_is_one_finding(tmp_path: Path) -> None:
    """Rank 2 is late before a bcast, and still at the following reduce and barrier."""
    synthetic, random, now = Synthetic(4), np.random.default_rng(4), 10 * MS
    for _ in range(60):
        a = now + 5 * MS + random.integers(0, 20_000, 4)
        a[2] += 6 * MS
        synthetic.add_collective("bcast", a, a + 20_000, root=0, site="md.py:10:start")
        b = a + MS + random.integers(0, 20_000, 4)
        left = b + 20_000
        left[0] = b.max() + 20_000
        synthetic.add_collective("reduce", b, left, root=0, site="md.py:20:sum")
        c = left + MS + random.integers(0, 20_000, 4)
        synthetic.add_collective("allreduce", c, np.full(4, c.max() + 20_000), site="md.py:30:all")
        now = int(c.max()) + 20_000
    synthetic.ended_ns = now + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    of_rank = [one for one in trace.findings() if one.ranks == (2,)]
    assert len(of_rank) == 1
    between = "between allreduce at md.py:30 all and bcast at md.py:10 start"
    assert between in sentences.problem_sentence(trace, of_rank[0])


def test_a_rank_that_is_mostly_last_is_not_passed_over(tmp_path: Path) -> None:
    """Its delay varies, but it is last so often that chance is excluded."""
    random = np.random.default_rng(1)
    late = random.exponential(MS, (60, 4))
    late[:, 2] += random.exponential(3 * MS, 60)
    synthetic, now = Synthetic(4), 10 * MS
    for row in late:
        came = now + row.astype(np.int64)
        synthetic.add_collective(
            "allreduce", came, np.full(4, came.max() + 1000), site="md.py:13:step"
        )
        now = int(came.max()) + 5 * MS
    synthetic.ended_ns = now + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    first = trace.findings()[0]
    assert first.ranks == (2,) and first.certainty > 0.99
    printed = sentences.finding_text(trace, first)
    assert printed.startswith("Rank 2 works ") and "other ranks late" not in printed


@pytest.mark.heavy
def test_text_never_overflows(tmp_path: Path) -> None:
    """Every kind of finding fits a screen, with 4 or 100 ranks."""
    for case in CASES:
        if case.name.endswith(("-4", "-100")):
            trace = mpiprof.open(case.write(tmp_path / case.name))
            for one in trace.findings():
                assert len(sentences.finding_text(trace, one)) < 600, case.name
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    assert len(sentences.finding_title(trace, one)) < 120, case.name


def test_a_call_site_of_several_communicators(tmp_path: Path) -> None:
    """Steps end with the instances of all ranks; absent ranks cause no warning."""
    synthetic, random, now = Synthetic(6), np.random.default_rng(0), 10 * MS
    synthetic.add_communicator("half", [0, 1, 2])
    for _ in range(60):
        a = now + MS + random.integers(0, 20_000, 6)
        a[4] += 3 * MS
        synthetic.add_collective(
            "barrier", a, np.full(6, a.max() + 10_000), "world", site="g.py:5:both"
        )
        b = a.max() + MS + random.integers(0, 20_000, 3)
        synthetic.add_collective(
            "barrier", b, np.full(3, b.max() + 10_000), "half", site="g.py:5:both"
        )
        now = int(b.max()) + MS
    synthetic.ended_ns = now + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (one,) = trace.findings()
    assert (one.cause, one.ranks) == ("rank", (4,))
    printed = sentences.finding_text(trace, one)
    assert "This holds in 60 of 60 steps." in printed
    assert "between two calls of barrier at g.py:5 both, in each step: " in printed
