"""The library's own algorithms as choices (`allreduce=native:ring`): exactly these run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.library_algorithm_runs import FUNCTIONS, Case, cases, recorded
from support.mpis import SLOW_WITH_MPICH, Mpi

import mpiprof
from mpiprof.collectives.tune import plan_entries
from mpiprof.collectives.tune.replay.jobs import SEGMENT_SIZES
from mpiprof.facts.library_algorithms import LibraryAlgorithm, find_algorithms
from mpiprof.facts.library_table import NOT_SELECTABLE, WRONG_RESULTS
from mpiprof.facts.operations import OPERATIONS

SIZES = (2, 3, 4, 8)  # numbers of processes
BYTES = (1, 64, 1000, 65536)
SEGMENT = 4096

FAMILIES = ("openmpi", "mpich")
Ran = tuple[dict[Case, list[str]], dict[Case, str]]


def told_in(library: str, index: int) -> dict[str, LibraryAlgorithm]:
    """Return the turn-th algorithm of every operation that the library can be set to."""
    return {
        one.operation: one
        for one in find_algorithms(library)
        if one.selected_by == index and one.is_selectable
    }


def switch(reported: dict[str, LibraryAlgorithm], *, segments: bool = False) -> list[str]:
    """Return the option that selects the algorithms."""
    ends = [
        f":segment={SEGMENT}" if segments and one.is_segmented else "" for one in reported.values()
    ]
    names = [
        f"{o}=native:{one.name}{end}" for (o, one), end in zip(reported.items(), ends, strict=True)
    ]
    return ["--switch", ",".join(names)]


def ran(mpi: Mpi, requested: Sequence[Case], tools: str, folder: Path, options: list[str]) -> Ran:
    """Record calls with a preloaded tool; returns rank 0's output for each, and its algorithm."""
    tool = compiled(mpi, tools, "-shared", "-fPIC", "-ldl")
    printed, _ = recorded(mpi, requested, {"LD_PRELOAD": str(tool)}, folder, options)
    events = mpiprof.open(folder / "trace").events
    mine = events[(events["rank"] == 0) & events["operation"].isin(OPERATIONS)]
    found = mine.sort_values("enter_ns")["algorithm"].astype(str).tolist()
    return printed, dict(zip(requested, found, strict=True))


def fits(one: LibraryAlgorithm, size: int, count: int) -> bool:
    """Return whether the library runs it at this size and count, according to its documents."""
    elements = count // 8 if count % 8 == 0 and one.operation != "bcast" else count
    least = {"elements": size, "half_elements": 1 << (size.bit_length() - 1)}
    return one.runs_on(size) and all(elements >= least.get(need, 0) for need in one.requirements)


def segmented(one: LibraryAlgorithm, size: int, count: int, segment: int) -> bool:
    """Return whether a segmented algorithm has enough segments to differ from others."""
    if one.name == "split_binary_tree":
        return max(segment, 1) <= count // 2
    if one.name == "segmented_ring":
        return 0 < segment < count and count // 8 >= size * (segment // 8)
    return True


@pytest.mark.parametrize("index", range(1, 11))
def test_open_mpis(openmpi: Mpi, tmp_path: Path, index: int) -> None:
    """On 2, 3, 4 and 8 processes: the function that was called is the chosen one.

    The turn-th algorithm of every operation is chosen. The last turn chooses segmented algorithms.
    """
    reported = told_in("openmpi", index)
    if index == 10:
        reported = {
            o: next(x for x in find_algorithms("openmpi", o) if x.is_segmented)
            for o in ("allreduce", "reduce")
        }
        reported["bcast"] = find_algorithms("openmpi", "bcast")[3]
    segment = SEGMENT if index == 10 else 0
    requested = cases(tuple(reported), SIZES, BYTES)
    options = switch(reported, segments=index == 10)
    printed, algorithms = ran(
        openmpi, requested, "library_algorithm_functions.c", tmp_path, options
    )
    names = {
        f"{operation}_{word}": (operation, find_algorithms("openmpi", operation)[place].name)
        for operation, words in FUNCTIONS.items()
        for place, word in enumerate(words.split())
    }
    for case in requested:
        operation, size, count = case
        one = reported[operation]
        called = [names[word.replace("_intra_", "_")] for word in printed[case][1:]]
        took = [name for of, name in called if of == operation][-1:]
        # Open MPI reads the setting of allgatherv from the environment only.
        runs = operation != "allgatherv" and fits(one, size, count)
        runs &= segmented(one, size, count, segment)
        if runs:
            end = f":segment={segment}" if segment else ""
            assert (took, algorithms[case]) == ([one.name], f"native:{one.name}{end}"), case
        else:
            assert algorithms[case] == "native", case
        assert printed[case][0] == "0", case


@pytest.mark.parametrize("index", range(1, 10))
def test_mpichs(mpich: Mpi, tmp_path: Path, index: int) -> None:
    """On 2, 3, 4 and 8 processes: MPICH's setting applies during the call only.

    The turn-th algorithm of every operation is chosen.
    """
    reported = told_in("mpich", index)
    requested = cases(tuple(reported), SIZES, (1, 1000, 65536))
    printed, algorithms = ran(
        mpich, requested, "library_algorithm_variables.c", tmp_path, switch(reported)
    )
    for case in requested:
        operation, size, count = case
        one = reported[operation]
        runs = fits(one, size, count) and "in_place" not in one.requirements
        assert printed[case][-1] == "0:1", case
        assert printed[case][-2] == (f"{one.selected_by}:0" if runs else "0:1"), case
        assert (algorithms[case] == f"native:{one.name}") == runs, case
        assert printed[case][0] == "0", case


@pytest.mark.parametrize(
    "variant", ["native:segmented_ring:segment=1024", "native:recursive_doubling"]
)
def test_a_choice_survives(openmpi: Mpi, tmp_path: Path, variant: str) -> None:
    """On 3 processes: from a rule to the trace, to a plan, to the next run, also with `auto`."""
    program = compiled(openmpi, "library_algorithm_calls.c", "-ldl")

    def ran_on(number: int, switch: str, calls: int = 40) -> set[str]:
        trace = tmp_path / f"trace-{number}"
        words = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace)]
        words += ["--switch", switch, "--", str(program), str(tmp_path)]
        run_mpi(openmpi, 3, [*words, *["allreduce:3:32768"] * calls], check=True)
        events = mpiprof.open(trace).events
        return set(events.loc[events["operation"] == "allreduce", "algorithm"].astype(str))

    assert ran_on(1, f"allreduce={variant}") == {variant}
    plan = tmp_path / "plan.json"
    plan_entries.write(plan, [plan_entries.make_entry("allreduce", 3, None, (), variant, "", {})])
    assert ran_on(2, str(plan)) == {variant}
    # `auto` starts with the plan's choice. Before its third window it has no data for another
    # choice.
    assert ran_on(3, f"{plan},auto", calls=12) == {variant}


def test_communicators_of_the_program_are_as_bare(openmpi: Mpi, tmp_path: Path) -> None:
    """On 4 processes: communicators created beside switched calls use the library's own choice.

    100 communicators need no more private ones than the limit of a process.
    """
    program = compiled(openmpi, "library_algorithm_communicators.c")
    counter = compiled(openmpi, "library_algorithm_functions.c", "-shared", "-fPIC", "-ldl")
    command = [str(openmpi.python), "-m", "mpiprof", "run", "-o", str(tmp_path / "trace")]
    command += ["--switch", "allreduce=native:nonoverlapping", "--", str(program)]
    done = run_mpi(openmpi, 4, command, env={"LD_PRELOAD": str(counter)}, check=True)
    bare = run_mpi(openmpi, 4, [str(program)], env={"LD_PRELOAD": str(counter)}, check=True)
    assert done.stdout == bare.stdout and "bcast" in bare.stdout
    events = mpiprof.open(tmp_path / "trace").events
    reported = events[events["algorithm"].astype(str) == "native:nonoverlapping"]
    assert reported["communicator"].nunique() == 32  # each has a private one, and a duplicate of it
    assert "use the 64 private communicators" in done.stderr


@SLOW_WITH_MPICH
def test_replay_measures_them(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 processes: `tune --replay` measures all that apply, with two sizes of segments."""
    program = compiled(mpi, "library_algorithm_calls.c", "-ldl")
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace"), "--"]
    calls = [f"{operation}:2:200000" for operation in ("bcast", "allreduce")] * 6
    run_mpi(mpi, 2, [*words, str(program), str(tmp_path), *calls], check=True)
    words = [str(mpi.python), "-m", "mpiprof", "tune", str(tmp_path / "trace"), "--replay"]
    words += ["--budget", "20s", "--json", "-o", str(tmp_path / "plan.json")]
    one_thread = {"MPI4PY_RC_THREAD_LEVEL": "serialized"}
    done = run_mpi(mpi, 2, words, cwd=tmp_path, env=one_thread, check=True)
    works = {one["operation"]: one for one in json.loads(done.stdout)["works"]}
    for operation in ("bcast", "allreduce"):
        found = {one["name"] for one in works[operation]["candidates"]}
        expected = {
            f"native:{one.name}{f':segment={segment}' if segment else ''}"
            for one in find_algorithms(mpi.name, operation)
            for segment in ((0, *SEGMENT_SIZES) if one.is_segmented else (0,))
            if one.is_selectable and fits(one, 2, 200000) and segmented(one, 2, 200000, segment)
        }
        assert {name for name in found if name.startswith("native:")} == expected


VARIABLES = {"mpich": "MPIR_CVAR_BCAST_INTRA_ALGORITHM", "openmpi": "coll_tuned_bcast_algorithm"}


def test_errors_leave_the_librarys_settings_alone(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 processes: an error code, a handler that returns, and one that jumps out.

    The library's settings are afterwards as in the bare program.
    """
    command = [str(compiled(mpi, "library_algorithm_errors.c")), VARIABLES[mpi.name]]
    wrapper = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    choices = "bcast=native:binomial,barrier=native:" + ("bruck", "recexch")[mpi.name == "mpich"]
    bare = run_mpi(mpi, 2, command, check=True).stdout
    reported = run_mpi(mpi, 2, [*wrapper, "--switch", choices, "--", *command], check=True).stdout
    assert reported == bare
    assert "turn 0: 32, wrong -1" in bare and "turn 2: 32, wrong -3, handled 2" in bare
    assert bare.count("in handler 0, after 0, then 0") == 2
    used = mpiprof.open(tmp_path / "trace").events["algorithm"].astype(str)
    assert {"native:binomial", choices.split("=")[-1]} <= set(used)


def test_several_threads(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 processes: if several threads may call MPICH, it stays unset, which is reported."""
    program = compiled(mpich, "mpi_t_program.c")
    command = [str(mpich.python), "-m", "mpiprof", "run", "-o", str(tmp_path / "trace")]
    command += [
        "--switch",
        "barrier=native:recexch",
        "--",
        str(program),
        "MPIR_CVAR_ALLTOALL_THROTTLE",
    ]
    done = run_mpi(mpich, 2, command, check=True)
    assert (
        "1 call was left to the library's own choice: MPI_T settings apply to all threads"
        in done.stderr
    )
    events = mpiprof.open(tmp_path / "trace").events
    assert "native:recexch" not in set(events["algorithm"].astype(str))


@pytest.mark.parametrize(
    ("choice", "printed"),
    [
        ("allgather=native:sparbit", "Open MPI cannot select 'sparbit'"),
        ("allreduce=native:recexch", "Open MPI has no 'recexch'"),
    ],
)
def test_what_the_library_has_not(openmpi: Mpi, tmp_path: Path, choice: str, printed: str) -> None:
    """On 2 processes: a message at the job's start, and the library's own choice runs."""
    program = compiled(openmpi, "clock_rounds.c")
    command = [str(openmpi.python), "-m", "mpiprof", "run", "-o", str(tmp_path / "trace")]
    done = run_mpi(
        openmpi, 2, [*command, "--switch", choice, "--", str(program), "3", "end"], check=True
    )
    assert f"--switch {choice}: {printed}" in done.stderr


def test_older_libraries(system_mpi: Mpi, tmp_path: Path) -> None:
    """On 2 processes: older libraries cannot be set, which is reported when the job starts."""
    program = compiled(system_mpi, "clock_rounds.c")
    command = [str(system_mpi.python), "-m", "mpiprof", "run", "-o", str(tmp_path / "trace")]
    command += ["--switch", "barrier=native:1", "--", str(program), "3", "end"]
    done = run_mpi(system_mpi, 2, command, check=True)
    assert "no selectable algorithms" in done.stderr
    assert set(mpiprof.open(tmp_path / "trace").events["algorithm"]) == {"native"}


def test_every_algorithm_is_tried() -> None:
    """All algorithms that can be selected are tested."""
    tried = {one for index in range(1, 11) for x in FAMILIES for one in told_in(x, index).values()}
    left = {one for x in FAMILIES for one in find_algorithms(x)} - tried
    wrong = {(*key, name) for key, names in WRONG_RESULTS.items() for name in names.split()}
    assert wrong == {(x.library, x.operation, x.name) for x in left if x.name not in NOT_SELECTABLE}
