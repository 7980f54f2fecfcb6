"""Tree of sampled stacks: times of functions by their callers, for groups of ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.dashboard_traces import MS, lateness
from support.program import Program
from support.synthetic import Synthetic
from support.where_samples import add_samples

import mpiprof
from mpiprof.causes.sampled_code import (
    CALLERS_UNKNOWN,
    INCONCLUSIVE,
    StackTree,
    find_late_ranks,
    make_stack_tree,
)
from mpiprof.trace.trace import Trace

CALL = "md.py:93:force"
OTHER = "md.py:50:move"
SOLVE = "md.py:9:solve < md.py:20:main < md.py:30:<module>"
SOLVE_ELSEWHERE = "md.py:11:solve < md.py:20:main < md.py:30:<module>"
ASSEMBLE = "md.py:5:assemble < md.py:21:main < md.py:30:<module>"


def sampled(trace: Synthetic, folder: Path, rows: list[tuple[int, str, str, int]]) -> Trace:
    """Add samples of 10 ms (rank, entered, stack, count), and open the trace."""
    for rank, entered, stack, count in rows:
        add_samples(trace, rank, CALL, entered, stack, count, 10 * MS * count)
    return mpiprof.open(trace.write(folder))


def late_trace() -> Synthetic:
    """Return 4 ranks, of which rank 2 is late by 30 ms before each of 12 calls."""
    return lateness(np.full((12, 4), 30 * MS) * (np.arange(4) == 2))


def name_path(tree: StackTree, node: int) -> str:
    """Return the functions from below the root to a node."""
    names: list[str] = []
    while node > 0:
        names.append(tree.functions[node][1])
        node = int(tree.parents[node])
    return " ".join(names[::-1])


def times(tree: StackTree) -> dict[str, list[float]]:
    """Return the total times in ms of the groups, by the functions from the root to a node."""
    return {
        name_path(tree, node): (tree.total_ns[node] / MS).tolist()
        for node in range(len(tree.functions))
    }


ROWS = [
    (2, CALL, SOLVE, 10),
    (2, CALL, SOLVE_ELSEWHERE, 4),
    (2, CALL, ASSEMBLE, 30),
    (0, CALL, SOLVE, 12),
    (1, CALL, SOLVE, 9),
    (1, OTHER, SOLVE, 100),
]


def test_times_are_means_over_the_ranks_of_a_group(tmp_path: Path) -> None:
    """Rank 3 has no sample and counts: the others spent (120 + 90 + 0) / 3 ms."""
    trace = sampled(late_trace(), tmp_path / "t", ROWS)
    sites = {key.collective_after for key in trace.tables.presite_samples}
    call = {site for site in sites if trace.tables.sites[site][0]["line"] == 93}
    tree = make_stack_tree(trace, [[2], [0, 1, 3]], call)
    assert times(tree) == {
        "": [440, 70],
        "<module>": [440, 70],
        "<module> main": [440, 70],
        "<module> main solve": [140, 70],
        "<module> main assemble": [300, 0],
    }
    lines = dict(zip((name for _, name in tree.functions), tree.lines.tolist(), strict=True))
    assert lines["solve"] == 9 and lines["main"] == 20, "lines with most time of all ranks"
    assert tree.samples[0].tolist() == [44, 21] and tree.ranks.tolist() == [1, 3]


def test_a_tree_accounts_for_all_sampled_time(tmp_path: Path) -> None:
    """Children add up to at most their parent, the remainder is its own, and the root is all."""
    random = np.random.default_rng(4)
    names = [f"f{i}" for i in range(5)]
    rows = [
        (
            int(random.integers(4)),
            CALL,
            " < ".join(f"md.py:{random.integers(9)}:{n}" for n in random.choice(names, depth)),
            int(random.integers(1, 9)),
        )
        for depth in random.integers(1, 9, 300)
    ]
    trace = sampled(late_trace(), tmp_path / "t", rows)
    tree = make_stack_tree(trace, [range(4)])
    assert tree.total_ns[0, 0] * 4 == pytest.approx(sum(count for *_, count in rows) * 10 * MS)
    below = np.bincount(tree.parents[1:], tree.total_ns[1:, 0], len(tree.parents))
    np.testing.assert_allclose(below + tree.self_ns[:, 0], tree.total_ns[:, 0], atol=1e-3)
    assert (tree.parents[1:] < np.arange(1, len(tree.parents))).all()


@pytest.mark.parametrize(
    ("stack", "path"),
    [
        ("a.c:3:kernel", f"{CALLERS_UNKNOWN} kernel"),
        ("a.c:3:kernel < a.c:9:main < libc.c:58:__libc_start", "main kernel"),
        ("a.py:3:f < a.py:9:<module> < <frozen runpy>:88:_run_code", "<module> f"),
        ("a.c:3:kernel < libc.c:58:__libc_start_call_main", "main kernel"),
        (CALL, INCONCLUSIVE),
    ],
    ids=["no callers", "C library", "runpy", "main hidden", "Python's lock"],
)
def test_stacks_begin_at_main(tmp_path: Path, stack: str, path: str) -> None:
    trace = sampled(late_trace(), tmp_path / "t", [(2, CALL, stack, 1)])
    assert path in times(make_stack_tree(trace, [[2]]))


def test_ranks_without_sampling_do_not_count(tmp_path: Path) -> None:
    synthetic = late_trace()
    synthetic.lines[3].append({"rank": 3, "note": "--where: no samples: a seccomp filter"})
    trace = sampled(synthetic, tmp_path / "t", ROWS)
    assert make_stack_tree(trace, [[2], [0, 1, 3]]).ranks.tolist() == [1, 2]


def test_late_ranks_are_those_of_the_call_site(tmp_path: Path) -> None:
    trace = sampled(late_trace(), tmp_path / "t", [])
    assert find_late_ranks(trace, 0) == [2]
    even = mpiprof.open(lateness(np.zeros((12, 4), np.int64)).write(tmp_path / "even"))
    assert find_late_ranks(even, 0) == [] == find_late_ranks(even, None)


def test_a_rank_that_waits_for_a_late_rank_is_not_compared_as_late(tmp_path: Path) -> None:
    """Rank 2 arrives with rank 1, because it waits for a message of rank 1."""
    program = Program(6)
    for _ in range(40):
        program.work(MS)
        program.work(9 * MS * (np.arange(6) == 1))
        program.message(1, 2)
        program.collective("allreduce")
    trace = mpiprof.open(program.write(tmp_path))
    assert trace.arrival_statistics(0).ranks["rank"].tolist()[:2] in ([1, 2], [2, 1])
    assert find_late_ranks(trace, 0) == [1] == find_late_ranks(trace, None)


def test_the_excess_is_in_the_program_s_innermost_function() -> None:
    """The function main calls solve, which calls exp of a library, which spends the time."""
    functions = [(None, "all samples"), ("md.c", "main"), ("md.c", "solve"), ("e_exp.c", "exp")]
    total_ns = np.array([[90.0, 10], [90, 10], [80, 5], [70, 0]])
    zeros, ones = np.zeros(4, np.int64), np.ones((4, 2), np.int64)
    tree = StackTree(
        functions,
        zeros,
        np.arange(-1, 3),
        total_ns,
        total_ns,
        ones,
        ones[0],
        np.array([False, False, False, True]),
    )
    assert tree.functions[tree.find_excess()] == ("md.c", "solve")
