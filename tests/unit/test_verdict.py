"""Findings and verdicts on programs that the specifications of tests/causes do not have."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from support.late_traces import MS, noise, one_site
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion, finding_sentences

# Algorithm -> operation, lateness of ranks in ms, the rank that delays others, and its first step.
TREES = {
    "parent": ("binomial", "bcast", {1: 3, 7: 6}, 1, 0),  # 1 sends to 3 and 5; 7 is a leaf
    "root": ("binomial", "bcast", {0: 3, 4: 5}, 0, 0),  # 4 is a leaf
    "link": ("chain:block_size=1024", "bcast", {5: 3}, 5, 100),
    "child": ("binary_tree", "reduce", {6: 3}, 6, 0),  # 4 waits for it, and the root for both
}


@pytest.mark.parametrize("case", TREES)
def test_ranks_wait_for_the_ranks_between_them_and_the_root(tmp_path: Path, case: str) -> None:
    algorithm, operation, late_ms, blamed, first = TREES[case]
    late = noise(300, 8, 0.1)
    for rank, ms in late_ms.items():
        late[first:, rank] += ms
    trace = one_site(tmp_path, Synthetic(8), late, operation, root=0, algorithm=algorithm)
    worst = trace.findings()[0]
    assert (worst.cause, worst.ranks) == ("rank", (blamed,))
    assert worst.first_instance is not None and abs(worst.first_instance - first) <= 3


def test_nothing_to_gain(tmp_path: Path) -> None:
    trace = one_site(tmp_path, Synthetic(4), noise(50, 4, 0.001))
    verdict = make_verdict(trace, trace.findings())
    assert verdict.cause == "none" and verdict.worst is None
    lines = conclusion.verdict_lines(trace, verdict)
    assert lines[0] == "<1 % of all ranks' time is waiting in collectives."
    assert lines[1].startswith("Nothing stands out")


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
    printed = finding_sentences.finding_text(trace, first)
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
    assert between in finding_sentences.problem_sentence(trace, of_rank[0])


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
    printed = finding_sentences.finding_text(trace, one)
    assert "This holds in 60 of 60 steps." in printed
    assert "between two calls of barrier at g.py:5 both, in each step: " in printed
