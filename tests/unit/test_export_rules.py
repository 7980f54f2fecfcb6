"""Plans as a library's configuration: the file obeys the plan, and changes nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.mpis import environment_of
from support.random_plans import asked_for, random_plan, rules_of

from mpiprof.collectives.catalogue import load_catalogue
from mpiprof.collectives.tune.export_rules import mpich, openmpi, targets
from mpiprof.collectives.tune.export_rules.cells import (
    Cell,
    ExportRequest,
    Refusal,
    Refusals,
    exclude_cells,
    make_cells,
)
from mpiprof.collectives.tune.export_rules.mpich import TreeCall, find_leaf
from mpiprof.collectives.tune.export_rules.openmpi import (
    OPERATION_NUMBERS,
    find_rule,
    library_bytes,
)
from mpiprof.collectives.tune.tasks import TuningTask
from mpiprof.errors import MpiprofError
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.facts.operations import OPERATIONS

MPICH = environment_of("mpich") / "lib" / "libmpi.so.12"
LARGEST = 9  # processes of the random plans


def handed(
    entries: list[dict[str, Any]], library: str = "openmpi", **words: Any
) -> tuple[list[Cell], list[Refusal]]:
    """Return the cells of a plan that a library can obey, and the refusals."""
    refusals = Refusals()
    found = make_cells(ExportRequest(rules_of(entries), library, **words), refusals)
    checks: dict[str, Callable[[Cell], object]] = {
        "mpich": partial(mpich.check_cell, MPICH.read_bytes()),
        "openmpi": openmpi.cell_lines,
        "intel": targets.check_cell,
    }
    return exclude_cells(found, checks[library], refusals), list(refusals)


def work(
    operation: str, size: int, span: tuple[int, int], sites: tuple[str, ...], label: str
) -> TuningTask:
    """Return the calls of a site in a trace."""
    return TuningTask(0, operation, sites, label, size, 0, (), (), span, "native", 1, 0.0, ())


def whys(entries: list[dict[str, Any]], **words: Any) -> list[str]:
    """Return why entries cannot be exported."""
    return [refusal.reason for refusal in handed(entries, **words)[1]]


# ---- the table


def test_the_table_names_algorithms_of_mpiprof() -> None:
    known = {(a.operation, a.name) for a in load_catalogue() if not a.intercommunicator}
    words = [
        (one.operation, word) for one in find_algorithms() for word in one.catalogue_name.split()
    ]
    named = [(operation, word.partition(":")[0]) for operation, word in words]
    assert set(named) <= known
    for library in ("openmpi", "mpich", "intel"):
        ours = [
            (one.operation, one.catalogue_name)
            for one in find_algorithms(library)
            if one.catalogue_name
        ]
        assert len(ours) == len(set(ours)), "one of ours is two of theirs"


# ---- Open MPI's rules file


def test_a_file_guards_below_and_above() -> None:
    entry = {"operation": "allreduce", "size": 8, "bytes": {"from": 1024, "to": 4096}}
    found, refused = handed([entry | {"algorithm": "halving_doubling"}])
    assert refused == []
    lines = [line.partition("#")[0].split() for line in openmpi.format_rules(found).splitlines()]
    assert [list(map(int, words)) for words in lines if words] == [
        *([1], [2], [3]),  # one operation: allreduce, with three sizes
        *([0, 1], [0, 0, 0, 0]),
        *([8, 3], [0, 0, 0, 0], [1024, 6, 0, 0], [4097, 0, 0, 0]),
        *([9, 1], [0, 0, 0, 0]),
    ]


@pytest.mark.parametrize(
    ("operation", "algorithm", "begin", "end"),
    [
        ("bcast", "binomial", 1000, 2001),
        ("reduce_scatter_block", "recursive_halving", 4000, 8001),
        ("alltoall", "ring", 4000, 8001),
        ("allgather", "ring", 4000, 8001),
        ("allgatherv", "linear_ring", 250, 500),  # up to 2000 bytes, 499 x 4 + 3
    ],
)
def test_bytes_are_counted_as_the_library_does(
    operation: str, algorithm: str, begin: int, end: int
) -> None:
    span = {"from": 1000, "to": 2000}
    entry = {"operation": operation, "size": 4, "bytes": span, "algorithm": algorithm}
    ((cell,), _) = handed([entry])
    rules = openmpi.parse_rules(openmpi.format_rules([cell]))
    (_, (_, begins, ends)) = next(x for x in rules[OPERATION_NUMBERS[operation]] if x[0] == 4)
    assert (begins.first, begins.algorithm) == (begin, cell.algorithm.number)
    assert (ends.first, ends.algorithm) == (end, 0)


@pytest.mark.slow
@pytest.mark.heavy
def test_random_plans_change_nothing_else() -> None:
    """1000 plans: the file read back obeys the plan's first matching rule, or does nothing."""
    random_ = random.Random(13)
    did = refused = 0
    for _ in range(1000):
        entries = random_plan(random_, "openmpi", LARGEST)
        rules = rules_of(entries)
        found, _ = handed(entries, largest=LARGEST, commutative=True)
        read = openmpi.parse_rules(openmpi.format_rules(found))
        assert list(openmpi.find_differences(read, found)) == []
        for _ in range(60):
            operation, size = (
                random_.choice(sorted(OPERATION_NUMBERS)),
                random_.randint(2, LARGEST + 3),
            )
            count = random_.choice([0, 1, 7, 8, 99, 100, 107, 1031, 5007, random_.randint(0, 9000)])
            line = find_rule(read, operation, size, library_bytes(operation, size, count))
            rule = asked_for(rules, operation, size, count)
            if line.algorithm == 0:
                refused += rule is not None
                continue
            did += 1
            assert rule is not None, (entries, operation, size, count)
            chosen = find_algorithms("openmpi", operation)[line.algorithm - 1]
            assert rule.algorithm in (chosen.catalogue_name, f"native:{chosen.name}")
            assert line.segment == int(dict(rule.parameters).get("block_size", 0))
    assert did > 2000 and refused > 1000


def test_a_change_of_the_file_is_seen() -> None:
    entry = {"operation": "bcast", "size": 4, "bytes": {"from": 100, "to": 200}}
    found, _ = handed([entry | {"algorithm": "binomial"}])
    text = openmpi.format_rules(found)
    for old, new in (("100 6", "99 6"), ("201 0", "202 0"), ("5 1 #", "6 1 #"), ("100 6", "100 5")):
        assert text.count(old) == 1
        changed = openmpi.parse_rules(text.replace(old, new))
        assert list(openmpi.find_differences(changed, found))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "'' in place of the number of operations"),
        ("1 2 1 0 1 0 0 0", "'' in place of a segment"),
        ("1 22 0", "'22' in place of an operation"),
        ("1 2 1 0 1 8 3 0 0", "bytes must ascend from 0"),
        ("1 2 1 0 2 0 3 0 0 0 4 0 0", "bytes must ascend from 0"),
        ("1 2 2 4 1 0 3 0 0 4 1 0 3 0 0", "sizes must ascend"),
        ("1 2 1 0 1 0 3 0 010", "'010' in place of a segment"),  # octal in the library
        ("0 1", "with data after its end"),
        ("rule-file-version-2\n0", "of a version other than"),
    ],
)
def test_what_the_library_would_ignore_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(MpiprofError, match=wrong):
        openmpi.parse_rules(text)


# ---- MPICH's selection tree


@pytest.fixture(scope="module")
def tree() -> mpich.Tree:
    """Return the tree that is compiled into MPICH."""
    if not MPICH.exists():
        pytest.skip(f"no {MPICH}")
    return mpich.read_compiled_tree(MPICH)


@pytest.mark.slow
@pytest.mark.heavy
def test_random_plans_change_nothing_else_of_mpich(tree: mpich.Tree) -> None:
    """1000 plans: the tree obeys the plan's first matching rule, or selects as before."""
    random_ = random.Random(14)
    did = 0
    for number in range(1000):
        entries = random_plan(random_, "mpich", LARGEST)
        rules = rules_of(entries)
        found, _ = handed(entries, "mpich", largest=LARGEST)
        changed = mpich.merge_cells(tree, found)
        if number % 20 == 0:
            assert list(mpich.find_differences(tree, changed, found)) == []
        for _ in range(40):
            operation, size = (
                random_.choice(sorted(mpich.MEASURES)),
                random_.randint(2, LARGEST + 3),
            )
            count = random_.choice(
                [0, 1, 7, 8, 99, 100, 107, 1031, 5007, random_.randint(0, 99999)]
            )
            made = random_.choice([(False, True), (True, True), (False, False)])
            asking = TreeCall(operation, size, count, *made)
            leaf, before = find_leaf(changed, asking), find_leaf(tree, asking)
            if leaf == before:
                continue
            did += 1
            rule = asked_for(rules, operation, size, count)
            assert rule is not None, (entries, asking)
            name = leaf.partition("_intra_")[2]
            (chosen,) = [one for one in find_algorithms("mpich", operation) if one.name == name]
            assert (
                chosen.equals_catalogue(rule.algorithm, size) or rule.algorithm == f"native:{name}"
            )
            assert asking.commutes or "commutes" not in chosen.requirements
            assert not (asking.in_place and "not_in_place" in chosen.requirements)
    assert did > 500


def test_a_size_is_answered_before_a_choice_by_bytes(tree: mpich.Tree) -> None:
    """At calls, comm_size<8 is true for 8 in the library, so no such condition may be there."""
    entry = {"operation": "alltoall", "size": 8, "bytes": {"from": 9, "to": 99}}
    found, _ = handed([entry | {"algorithm": "simple"}], "mpich")
    changed = mpich.merge_cells(tree, found)
    below = changed["collective=alltoall"]["comm_type=intra"]["comm_size<=8"]
    assert "comm_size<" not in json.dumps(below)
    for count in (8, 100, 256, 257, 40000):
        asking = TreeCall("alltoall", 8, count)
        assert find_leaf(changed, asking) == find_leaf(tree, asking)
    assert find_leaf(changed, TreeCall("alltoall", 8, 9)).endswith("intra_scattered")


def test_what_is_divided_by_nodes_is_refused(tree: mpich.Tree) -> None:
    assert tree
    found, (refusal,) = handed(
        [{"operation": "bcast", "size": 4, "algorithm": "binomial"}], "mpich"
    )
    assert found == [] and "splits this operation by nodes" in refusal.reason


def test_a_library_without_a_tree_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "libmpi.so.12"
    library.write_bytes(b'\x7fELF {"collective=bcast":{}}\0')
    with pytest.raises(MpiprofError, match="no readable tree of algorithms"):
        mpich.read_compiled_tree(library)


# ---- entries that cannot be exported


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"operation": "allreduce", "algorithm": "circulant", "size": 4}, "none|no equivalent"),
        ({"operation": "allreduce", "algorithm": "static", "size": 4}, "from call to call"),
        ({"operation": "reduce", "algorithm": "binary_tree", "size": 4}, "commutes"),
        ({"operation": "allreduce", "algorithm": "native:ring", "size": 4}, "commutes"),
        ({"operation": "allreduce", "algorithm": "native:7", "size": 4}, "it has basic_linear, "),
        ({"operation": "alltoall", "algorithm": "native:two_proc", "size": 4}, "two processes"),
        ({"operation": "bcast", "algorithm": "chain", "size": 4}, "no block_size"),
        ({"operation": "bcast", "algorithm": "binomial"}, "pass the number of ranks with -n"),
        (
            {"operation": "gather", "algorithm": "linear", "size": 4, "bytes": {"from": 9}},
            "could choose different algorithms",
        ),
        (
            {"operation": "allgatherv", "algorithm": "linear_ring", "size": 9, "bytes": {"to": 5}},
            "cannot distinguish 0 to 5 bytes",
        ),
        (
            {
                "operation": "bcast",
                "algorithm": "native:binomial",
                "size": 4,
                "measured": {"mpi": "MPICH 5.0.2"},
            },
            "is an algorithm of MPICH 5.0.2",
        ),
    ],
)
def test_what_is_refused_and_why(entry: dict[str, Any], why: str) -> None:
    found, (refusal,) = handed([entry])
    assert found == []
    assert any(part in refusal.reason for part in why.split("|"))


def test_what_is_refused_stays_with_the_library() -> None:
    """A later entry receives no calls of an earlier, refused entry."""
    first = {"operation": "bcast", "size": 4, "bytes": {"to": 999}, "algorithm": "circulant"}
    found, refused = handed([first, {"operation": "bcast", "size": 4, "algorithm": "binomial"}])
    assert [(cell.first, cell.algorithm.name) for cell in found] == [(1000, "binomial")]
    assert len(refused) == 1


def test_few_elements_stay_with_the_library() -> None:
    """Rabenseifner's needs one element per process: 4 of the largest type are 64 bytes."""
    entry = {"operation": "allreduce", "size": 5, "algorithm": "halving_doubling"}
    ((cell,), (refusal,)) = handed([entry])
    assert cell.first == 64 and "below 64 bytes" in refusal.reason


def test_a_call_site_entry_requires_a_trace_without_similar_calls_elsewhere() -> None:
    entry = {"operation": "bcast", "size": 4, "algorithm": "binomial", "call_sites": ["a.py:3"]}
    entry["bytes"] = {"from": 100, "to": 200}
    assert "pass the TRACE" in whys([entry])[0]
    here = work("bcast", 4, (129, 256), ("/home/a.py:3",), "a.py:3 f")
    others = [
        work("bcast", 5, (129, 256), ("b.py:1",), "b.py:1 g"),
        work("bcast", 4, (257, 512), ("b.py:1",), "b.py:1 g"),
        work("reduce", 4, (129, 256), ("b.py:1",), "b.py:1 g"),
    ]
    assert whys([entry], calls=[here, *others]) == []
    alike = work("bcast", 4, (65, 128), ("b.py:1",), "b.py:1 g")
    assert whys([entry], calls=[here, alike]) == ["would also change bcast at b.py:1 g"]
    assert whys([entry | {"call_sites": ["a.py:3", "b.py:1"]}], calls=[here, alike]) == []
    elsewhere = [entry | {"call_sites": ["c.py:9"]}, entry | {"call_sites": ["a.py:3"]}]
    unknown = "names a call site at which the trace has no bcast"
    assert whys(elsewhere, calls=[here, *others]) == [unknown]


# ---- Intel MPI's environment


def test_intel_by_its_reference() -> None:
    plan: list[dict[str, Any]] = [
        {"operation": "allreduce", "size": [4, 5], "bytes": {"to": 99}, "algorithm": "native:1"},
        {"operation": "barrier", "size": 4, "algorithm": "dissemination"},
    ]
    found, _ = handed(plan, "intel")
    assert targets.make_environment(found) == {
        "I_MPI_ADJUST_ALLREDUCE": "1:0-99@4-4;1:0-99@5-5",
        "I_MPI_ADJUST_BARRIER": "1:0-2147483647@4-4",
    }


# ---- the verb


def test_sized_operations_have_bytes() -> None:
    assert all(
        library_bytes(name, 4, 100) > 0 for name in OPERATION_NUMBERS if OPERATIONS[name].sized
    )
