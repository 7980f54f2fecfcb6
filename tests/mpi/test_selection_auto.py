"""A program under `--switch auto` has right results, no hang, and its usual exit code.

tests/core/test_decide.py tests the decisions. Each test names its number of processes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support import PROGRAMS, raw_trace
from support.auto_runs import has_probes, run_until
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.trace_tables import table_rows

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account.shape_names import is_native
from mpiprof.collectives.papers.harness.loop import Behaviour
from mpiprof.collectives.problem_spec import list_algorithms
from mpiprof.collectives.tune.model_correction import parse_lesson


def switched(
    mpi: Mpi, ranks: int, folder: Path, *words: str, options: tuple[str, ...] = (), **how: Any
) -> tuple[Path, Any]:
    """Run a program under auto; returns its trace and the finished process."""
    trace, argv = auto_words(mpi, folder, *words[1:], options=options, program=words[0])
    return trace, run_mpi(mpi, ranks, argv, cwd=folder, **how)


def auto_words(
    mpi: Mpi,
    folder: Path,
    *words: str,
    options: Sequence[str] = (),
    program: str = "selection_loops.py",
) -> tuple[Path, list[str]]:
    """Return a trace path and the command line that records a program into it under auto."""
    trace = folder / "trace"
    given = ["run", "-q", "-o", str(trace), "--switch", "auto", *options]
    return trace, [str(mpi.python), "-m", "mpiprof", *given, str(PROGRAMS / program), *words]


def selection(trace: Path) -> list[dict[str, Any]]:
    """Return the entries of selection.jsonl."""
    return [json.loads(line) for line in (trace / "selection.jsonl").read_text().splitlines()]


def probes(trace: Path) -> dict[tuple[str, int], int]:
    """Return the number of probes of each operation and communicator, from the log."""
    found: dict[tuple[str, int], int] = {}
    records = raw_trace.read(trace)
    for r in records.of(0):
        if r.choice == 2:
            key = (r.operation, r.communicator)
            found[key] = found.get(key, 0) + 1
    return found


# Three polling ranks of MPICH on two cores take minutes.
@pytest.mark.parametrize(
    ("mpi", "ranks"), [("mpich", 2), ("openmpi", 2), ("openmpi", 3)], indirect=["mpi"]
)
def test_ranks_reach_an_instance_from_different_call_sites(
    mpi: Mpi, ranks: int, tmp_path: Path
) -> None:
    """On 2 and 3 ranks, until it has probed: a selector with call sites as keys deadlocks here."""
    # A fixed machine table: measured on a busy machine, no algorithm would be worth a probe.
    machine = tmp_path / "machine.json"
    machine.write_text('{"within": {"alpha_ns": 200.0, "beta_ns_per_byte": 0.1}}')
    options = ("--machine", str(machine))
    trace, words = auto_words(mpi, tmp_path, "sites", "250", options=options)
    run_until(mpi, ranks, words, has_probes("bcast"), trace)
    phases = Counter(line["key"] for line in selection(trace) if line["kind"] == "phase")
    assert phases
    counted = probes(trace)
    assert counted
    assert all(count <= 40 * max(phases.values()) for count in counted.values())


def test_communicators_come_and_go_on_2_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    options = ("--record", "summary")
    program = ("selection_loops.py", "brief", "10000")
    trace, _ = switched(openmpi, 2, tmp_path, *program, options=options, check=True)
    calls = mpiprof.open(trace).callsites.groupby("operation")["instances"].sum()
    assert calls["alltoall"] == 100 + 10_000 // 100 and calls["comm_dup"] >= 10_000


def test_threads_on_separate_communicators_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace, _ = switched(mpi, 2, tmp_path, "selection_loops.py", "threads", "150", check=True)
    communicators = {line["communicator"] for line in selection(trace) if line["kind"] == "key"}
    assert len(communicators) >= 3


@pytest.mark.parametrize("at", [20, 40, 47])
def test_an_abort_has_its_exit_code_on_2_ranks(at: int, openmpi: Mpi, tmp_path: Path) -> None:
    trace, ended = switched(openmpi, 2, tmp_path, "selection_loops.py", "abort", str(at))
    assert ended.returncode == 7
    assert (trace / "rank-000001.log").exists()


@pytest.mark.parametrize(
    ("mpi", "ranks", "turns"),
    [("mpich", 2, 44), *(("openmpi", 3, turns) for turns in (1, 38, 42, 45, 60))],
    indirect=["mpi"],
)
def test_finalize_in_a_window(mpi: Mpi, ranks: int, turns: int, tmp_path: Path) -> None:
    """On 2 and 3 ranks: no call is lost."""
    program = ("selection_loops.py", "cut", str(turns))
    trace, _ = switched(mpi, ranks, tmp_path, *program, check=True)
    opened = mpiprof.open(trace)
    assert opened.is_complete
    assert (opened.instances["operation"] == "alltoall").sum() == turns


@pytest.mark.everything
def test_a_late_rank_that_moves_is_noticed_on_3_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    """A moved late rank is noticed within two windows of four, plus the window in transit.

    This holds on an idle machine. tests/core/test_decide.py has the guaranteed part.
    """
    trace, _ = switched(openmpi, 3, tmp_path, "selection_loops.py", "moving", "300", check=True)
    phases = [line for line in selection(trace) if line["kind"] == "phase"]
    later = [line["instance"] for line in phases if line["phase"] == 2]
    assert later, phases
    assert 150 < min(later) <= 150 + 5 * 8


def test_the_trace_states_the_purpose_of_every_instance_on_2_ranks(
    openmpi: Mpi, tmp_path: Path
) -> None:
    trace, _ = switched(openmpi, 2, tmp_path, "selection_loops.py", "long", "4000", check=True)
    opened = mpiprof.open(trace)
    instances = opened.instances
    reported = instances[instances["operation"] == "alltoall"]
    assert len(reported) == 4000
    counted = reported["choice"].value_counts().to_dict()
    (summary,) = [line for line in selection(trace) if line["kind"] == "end"]
    assert counted.get("probe", 0) == summary["probes"]
    assert summary["instances"] == 3996  # earlier instances have a shorter history
    began = tuple(4 + line["instance"] for line in selection(trace) if line["kind"] == "phase")
    each_phase = Behaviour(
        choices=tuple(reported["choice"].astype(str)), phases=began
    ).probes_by_phase()
    assert 0 < max(each_phase) <= 40
    trials = [line for line in selection(trace) if line["kind"] == "trial"]
    assert not [line for line in trials if line["instances"] < 3 and "error_ns" in line]
    # Each algorithm of the catalogue has run, or the reason is stated.
    known = [line for line in selection(trace) if line["kind"] in ("trial", "omitted")]
    assert {line["algorithm"].partition(":")[0] for line in known} >= {
        one.name for one in list_algorithms("alltoall")
    }
    observed = reported[reported["choice"] == "observe"]["algorithm"]
    assert all(map(is_native, observed.iloc[:8].astype(str)))
    # The last instance can be a probe of a later phase, so only those without probes are compared.
    ran = reported["algorithm"].astype(str).to_numpy()
    is_chosen = (reported["choice"] == "chosen").to_numpy()
    chosen = [
        (4 + x["instance"], x["algorithm"]) for x in selection(trace) if x["kind"] == "choice"
    ]
    for (first, algorithm), (end, _) in pairwise([*chosen, (4000, "")]):
        later = set(ran[first:end][is_chosen[first:end]])
        # The library's own algorithm may have a name: native:ring.
        assert all(is_native(x) if algorithm == "native" else x == algorithm for x in later)


def test_what_begins_late_is_tried_as_early_on_2_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    """Time before an operation's first call does not count in the time that a choice must gain."""
    machine = tmp_path / "machine.json"
    machine.write_text('{"within": {"alpha_ns": 200.0, "beta_ns_per_byte": 0.1}}')
    options = ("--machine", str(machine))
    trace, _ = switched(
        openmpi, 2, tmp_path, "selection_loops.py", "rested", "100", options=options, check=True
    )
    phases = [line for line in selection(trace) if line["kind"] == "phase"]
    assert phases and phases[0]["instance"] <= 60


def test_senders_still_run_ahead_on_2_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    program = compiled(openmpi, "rooted_run_ahead.c", "-O2")
    for option in (["--switch", "auto"], ["--record", "summary"]):
        folder = tmp_path / option[-1]
        given = ["run", "-q", "-o", str(folder), *option, "--", str(program)]
        given.append(str(tmp_path / f"signs-{option[-1]}"))
        ended = run_mpi(openmpi, 2, [str(openmpi.python), "-m", "mpiprof", *given], check=True)
        expected = ["bcast runs ahead", "reduce runs ahead", "gather runs ahead"]
        assert ended.stdout.splitlines() == expected


def test_reductions_stay_where_results_must_not_change_on_3_ranks(
    openmpi: Mpi, tmp_path: Path
) -> None:
    program = ("selection_soak.py", "5", "3")
    trace, _ = switched(openmpi, 3, tmp_path, *program, options=("--reproducible",), check=True)
    tried = [line for line in selection(trace) if line["kind"] == "key"]
    assert not {line["operation"] for line in tried} & {"reduce", "allreduce", "reduce_scatter"}


def test_what_was_found_starts_the_next_run_on_4_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    written = [{"operation": "alltoall", "algorithm": "ring", "why": "a test"}]
    plan.write_text(json.dumps(written))
    given = ["run", "-q", "-o", str(tmp_path / "trace"), "--switch", f"{plan},auto"]
    argv = [
        str(openmpi.python),
        "-m",
        "mpiprof",
        *given,
        str(PROGRAMS / "selection_loops.py"),
        "long",
        "120",
    ]
    run_mpi(openmpi, 4, argv, cwd=tmp_path, check=True)
    assert (
        main(["tune", str(tmp_path / "trace"), "--found", "-o", str(tmp_path / "found.json")]) == 0
    )
    first = selection(tmp_path / "trace")[1]
    assert (first["kind"], first["algorithm"], first["why"]) == ("choice", "ring", "from the plan")
    entries = json.loads((tmp_path / "found.json").read_text())
    # On a busy machine another algorithm, or the library's own, may have replaced the ring.
    held = {line["algorithm"] for line in selection(tmp_path / "trace") if line["kind"] == "end"}
    algorithms = {entry["algorithm"] for entry in entries}
    assert {entry["operation"] for entry in entries} == {"alltoall"}
    assert algorithms and algorithms <= held - {"native"}
    again = ["run", "-q", "-o", str(tmp_path / "again"), "--switch", str(tmp_path / "found.json")]
    argv = [
        str(openmpi.python),
        "-m",
        "mpiprof",
        *again,
        str(PROGRAMS / "selection_loops.py"),
        "long",
        "5",
    ]
    run_mpi(openmpi, 4, argv, cwd=tmp_path, check=True)
    used = table_rows(mpiprof.open(tmp_path / "again").instances)["algorithm"].astype(str)
    assert set(used) and set(used) <= algorithms


def test_learned_corrections_prevent_trials_of_slow_algorithms_on_2_ranks(
    openmpi: Mpi, tmp_path: Path
) -> None:
    """Learned corrections of 100,000 keep every all-to-all from being probed, but not bcast.

    The correction makes a call one second long, because on a busy machine the library can take more
    than a millisecond. The program continues until a broadcast was a probe.
    """
    machine, file = tmp_path / "machine.json", tmp_path / "learned.jsonl"
    machine.write_text('{"within": {"alpha_ns": 200.0, "beta_ns_per_byte": 0.1}}')
    values = {"operation": "alltoall", "bytes": 1 << 16, "members": 2, "ratio": 1e5, "runs": 16}
    reported = values | {"measured": {"mpi": ""}}
    lines = [json.dumps(reported | {"algorithm": one.name}) for one in list_algorithms("alltoall")]
    file.write_text("".join(f"{line}\n" for line in lines))
    options = ("--machine", str(machine), "--learn", str(file))
    trace, words = auto_words(openmpi, tmp_path, "sites", "1000", options=options)
    run_until(openmpi, 2, words, has_probes("bcast"), trace)
    counted = {operation: count for (operation, _), count in probes(trace).items()}
    assert counted.get("alltoall", 0) == 0 and counted["bcast"] > 0
    # The corrections of this job follow the given ones.
    after = file.read_text().splitlines()
    assert after[: len(lines)] == lines
    assert all(parse_lesson(line) is not None for line in after)
    assert {json.loads(line)["operation"] for line in after[len(lines) :]} <= {"bcast"}
