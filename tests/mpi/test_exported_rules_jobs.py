"""Exported rules in jobs, checked by the messages that each rank sends to each other rank."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi
from support.random_plans import asked_for, random_plan, rules_of

from mpiprof.collectives.schedule import SEND, Problem, Schedule, find, step_columns
from mpiprof.collectives.tune.export_rules.cells import ExportRequest
from mpiprof.collectives.tune.export_rules.openmpi import CALLED_INSIDE, OPERATION_NUMBERS
from mpiprof.collectives.tune.export_rules.targets import Export, export_rules
from mpiprof.collectives.tune.rules import Rule
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.facts.operations import OPERATIONS

MOST = 8  # maximum number of processes
SIZES = (2, 3, 4, 7, 8)
BYTES = (8, 5376)  # 5376 bytes: sevenths and repeated halves are whole elements
OTHER = (8, 96, 128, 1024, 5000, 65536)

Case = tuple[str, int, int]  # operation, number of processes, bytes of a block, vector or message
Messages = tuple[tuple[tuple[int, int], ...], ...]  # (messages, bytes) by sender, receiver


def messages(mpi: Mpi, cases: Sequence[Case], environment: dict[str, str]) -> dict[Case, Messages]:
    """Return the messages of a job of eight ranks; each call has a separate communicator."""
    program = compiled(mpi, "messages_by_pair.c", "-ldl")
    words = [f"{name}:{size}:{count}" for name, size, count in cases]
    found: dict[str, list[tuple[tuple[int, int], ...]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        run_mpi(mpi, MOST, [program, folder, *words], env=counting(mpi) | environment, check=True)
        for rank in range(MOST):
            for line in (Path(folder) / str(rank)).read_text().splitlines():
                word, *pairs = line.split()
                numbers = [tuple(map(int, pair.split("/"))) for pair in pairs]
                found.setdefault(word, []).append(tuple((a, b) for a, b in numbers))
    return {case: tuple(found[word]) for case, word in zip(cases, words, strict=True)}


def counting(mpi: Mpi) -> dict[str, str]:
    """Return the environment that counts messages; under MPICH each process acts as a node."""
    if mpi.name == "openmpi":
        return {"OMPI_MCA_pml_monitoring_enable": "1"}
    counter = compiled(mpi, "messages_ucx.c", "-shared", "-fPIC", "-ldl")
    return {
        "MPIR_CVAR_NOLOCAL": "1",
        "MPIR_CVAR_CH4_NETMOD": "ucx",
        "UCX_TLS": "tcp",
        "LD_PRELOAD": str(counter),
    }


def of_schedule(name: str, case: Case, block_size: int = 0) -> Messages:
    """Return the messages of mpiprof's schedule."""
    operation, size, count = case
    blocks = (count,) * size
    problem = Problem(
        size,
        0 if operation == "barrier" else count,
        unit=8 if OPERATIONS[operation].reduces else 1,
        counts=blocks if operation in ("allgatherv", "reduce_scatter") else (),
        rows=(blocks,) * size if operation == "alltoallv" else (),
        block_size=block_size,
    )
    rows = []
    for rank in range(size):
        sent = [[0, 0] for _ in range(size)]
        with Schedule(find(operation, name), problem, rank) as schedule:
            kind, peer, length = (step_columns().index(word) for word in ("kind", "peer", "length"))
            for step in schedule.read_steps(0, schedule.rounds):
                if step[kind] == SEND:
                    sent[step[peer]][0] += 1
                    sent[step[peer]][1] += int(step[length])
        rows.append(tuple((a, b) for a, b in sent))
    return tuple(rows)


def in_plan(case: Case) -> int:
    """Return a case's bytes as a plan counts them."""
    operation, size, count = case
    return count * size if operation in ("allgatherv", "reduce_scatter") else count


def written(mpi: Mpi, path: Path, rules: Sequence[Rule]) -> Export:
    """Export a plan into a file."""
    requested = ExportRequest(rules, mpi.name, MOST, commutative=True)
    done = export_rules(requested, path, library_of(mpi))
    path.write_text(done.text)
    return done


@cache
def untouched(mpi: Mpi) -> dict[Case, Messages]:
    """Return the messages of Open MPI without exported rules."""
    return messages(mpi, every_case(), {})


def every_case() -> list[Case]:
    """Return calls of all operations, for all numbers of processes and all bytes."""
    return [
        (operation, size, count)
        for operation in OPERATION_NUMBERS
        for size in SIZES
        for count in (OTHER if OPERATIONS[operation].sized else (8,))
    ]


def library_of(mpi: Mpi) -> Path:
    """Return the path of an MPI's library."""
    return mpi.bin.parent / "lib" / ("libmpi.so.12" if mpi.name == "mpich" else "libmpi.so.40")


def test_the_table_equals_the_list_of_the_library(openmpi: Mpi) -> None:
    """On one process: the table equals Open MPI's own list of algorithms."""
    listed = run([openmpi.bin / "ompi_info", "--param", "coll", "tuned", "--all", "--parsable"])
    for operation in OPERATION_NUMBERS:
        head = f"mca:coll:tuned:param:coll_tuned_{operation}_algorithm:enumerator:value:"
        rows = [line.removeprefix(head) for line in listed.stdout.splitlines() if head in line]
        named = {number: name for number, _, name in (row.partition(":") for row in rows)}
        assert named.pop("0") == "ignore"
        assert named == {str(one.number): one.name for one in find_algorithms("openmpi", operation)}


def test_the_table_of_mpich_equals_the_list_of_the_library(mpich: Mpi) -> None:
    """On one process: the table has the names in the descriptions of MPICH's control variables."""
    listed = run([compiled(mpich, "library_algorithm_names.c")], check=True).stdout
    known: dict[str, list[str]] = {}
    for line in listed.splitlines():
        operation, name = line.split()
        known.setdefault(operation, []).append(name)
    for operation in {one.operation for one in find_algorithms("mpich")}:
        assert [one.name for one in find_algorithms("mpich", operation)] == known[operation]


def test_ours_is_the_librarys_message_by_message(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 to 8 processes of a job of 8: exported rules send the messages of mpiprof's schedule."""
    rows = [one for one in find_algorithms(mpi.name) if one.catalogue_name]
    compared = 0
    for turn in range(10):
        # One algorithm of an operation at a time: the turn-th that equals one of mpiprof's.
        entries = []
        for operation in OPERATION_NUMBERS:
            known = [one.catalogue_name for one in rows if one.operation == operation]
            ours = [word.partition(":")[0] for words in known for word in words.split()]
            if turn < len(ours):
                entry = {"operation": operation, "algorithm": ours[turn]}
                parameters = {"parameters": {"block_size": 1024}} if ours[turn] == "chain" else {}
                entries.append(entry | parameters)
        if not entries:
            break
        path = tmp_path / f"{turn}.conf"
        done = written(mpi, path, rules_of(entries))
        cells = [
            cell
            for cell in done.cells
            if cell.size in SIZES and not cell.algorithm.describe_difference(cell.size)
        ]
        cases = [
            (cell.operation, cell.size, count)
            for cell in cells
            for count in (BYTES if OPERATIONS[cell.operation].sized else BYTES[-1:])
            if cell.covers(in_plan((cell.operation, cell.size, count)))
        ]
        sent = messages(mpi, cases, dict(done.environment))
        by_name = {(cell.operation, cell.size): cell for cell in cells}
        for case in cases:
            cell = by_name[case[:2]]
            requested = cell.request.partition("=")[2].partition(":")[0]
            assert sent[case] == of_schedule(requested, case, cell.segment), (
                case,
                cell.algorithm.name,
            )
            compared += 1
    assert compared > (150 if mpi.name == "openmpi" else 50)


SEEDS = [
    0, 1,
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6)),
    *(pytest.param(seed, marks=pytest.mark.everything) for seed in range(6, 16)),
]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_random_plans_touch_nothing_else(mpi: Mpi, tmp_path: Path, seed: int) -> None:
    """In a job of 8 processes: calls without a rule send the same messages as without the file."""
    entries = random_plan(random.Random(seed), mpi.name, MOST)
    rules = rules_of(entries)
    done = written(mpi, tmp_path / "rules", rules)
    cases = every_case()
    sent = messages(mpi, cases, dict(done.environment))
    for case in cases:
        operation, size, _ = case
        inside = [
            cell
            for cell in done.cells
            if (cell.operation, cell.size) == (operation, size) and cell.covers(in_plan(case))
        ]
        parts = CALLED_INSIDE.get(operation, ()) if mpi.name == "openmpi" else ()
        within = [cell for cell in done.cells if cell.operation in parts]
        if not inside and any(cell.size == size for cell in within):
            continue
        if not inside:
            assert sent[case] == untouched(mpi)[case], (entries, case)
            continue
        (cell,) = inside
        rule = asked_for(rules, operation, size, in_plan(case))
        assert rule is not None
        same = cell.algorithm.equals_catalogue(
            rule.algorithm, size
        ) and not cell.algorithm.describe_difference(size)
        if same and _even(case, rule.algorithm):
            assert sent[case] == of_schedule(rule.algorithm, case, cell.segment), (entries, case)


def _even(case: Case, ours: str) -> bool:
    """Return whether repeated halves are whole elements, so that no rounding differs."""
    return ours != "halving_doubling" or case[2] % (8 * 8) == 0
