"""The library's own algorithms as candidates of `--switch auto`: probed, chosen, passed on.

Their speed relative to mpiprof's algorithms is random here. So the library's settings make its
default choice slow, and learned corrections make mpiprof's algorithms slow.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import PROGRAMS
from support.auto_runs import holds, run_until
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof
from mpiprof.__main__ import main
from mpiprof.collectives.problem_spec import list_algorithms
from mpiprof.facts.library_algorithms import find_algorithms

SLOW = {
    "openmpi": {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_allreduce_algorithm": "5",
        "OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize": "16",
    },
    "mpich": {
        "MPI4PY_RC_THREAD_LEVEL": "serialized",
        "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE": "0",
        "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "tree",
        "MPIR_CVAR_ALLREDUCE_TREE_PIPELINE_CHUNK_SIZE": "4096",
    },
}
ATTEMPTS = 10
# Correction of mpiprof's algorithms: 100 ms, more than the library takes on a busy machine.
OURS = 4_000.0


def lessons(mpi: Mpi, ours: float, theirs: float) -> str:
    """Return corrections by which mpiprof's algorithms take `ours` times the prediction.

    The library's algorithms get corrections at several sizes, because one alone has little weight.
    """
    reported = [
        f"native:{one.name}" for one in find_algorithms(mpi.name, "allreduce") if one.is_selectable
    ]
    taken = [(one.name, 18, ours) for one in list_algorithms("allreduce")]
    taken += [(name, power, theirs) for name in reported for power in range(16, 21)]
    values = {"operation": "allreduce", "members": 2, "runs": 16, "measured": {"mpi": ""}}
    lines = [
        json.dumps(values | {"algorithm": name, "bytes": 1 << power, "ratio": ratio})
        for name, power, ratio in taken
    ]
    return "".join(f"{line}\n" for line in lines)


def command(mpi: Mpi, folder: Path, trace: str, switch: str, *words: str) -> list[str]:
    """Return the command line that runs programs/selection_loops.py."""
    run = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder / trace)]
    return [*run, "--switch", switch, *words]


def auto_words(mpi: Mpi, folder: Path, mode: str, turns: int = 120) -> list[str]:
    """Return the command line for reductions under auto, with mpiprof's algorithms marked slow."""
    machine, learned = folder / "machine.json", folder / "learned.jsonl"
    machine.write_text('{"within": {"alpha_ns": 200.0, "beta_ns_per_byte": 0.1}}')
    learned.write_text(lessons(mpi, OURS, 0.01))
    options = ["--machine", str(machine), "--learn", str(learned)]
    program = [str(PROGRAMS / "selection_loops.py"), mode, str(turns)]
    return command(mpi, folder, "trace", "auto", *options, *program)


def switched(mpi: Mpi, ranks: int, folder: Path, mode: str, *before: str) -> list[dict[str, Any]]:
    """Run reductions under auto with mpiprof's algorithms marked slow; returns selection.jsonl."""
    words = [*before, *auto_words(mpi, folder, mode)]
    run_mpi(mpi, ranks, words, env=SLOW[mpi.name], cwd=folder, check=True)
    return lines_of(folder)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of selection.jsonl."""
    text = (folder / "trace" / "selection.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def tried(lines: Sequence[dict[str, Any]]) -> set[str]:
    """Return the algorithms probed besides the library's default choice."""
    return {one["algorithm"] for one in lines if one["kind"] == "trial"} - {"native"}


def test_one_is_chosen_and_handed_on(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 processes: at most 4 are probed, and the choice is passed on.

    The plan, the trace and the learned corrections name it. On a busy machine the library's slow
    choice may measure well, so there are several attempts. Each attempt continues until the
    recorder has made its choice.
    """
    for number in range(ATTEMPTS):
        folder = tmp_path / f"run-{number}"
        folder.mkdir()
        words = auto_words(mpi, folder, "sums")
        run_until(mpi, 2, words, holds("allreduce"), folder / "trace", SLOW[mpi.name])
        lines = lines_of(folder)
        (end,) = [line for line in lines if line["kind"] == "end"]
        if end["algorithm"] in tried(lines):
            break
    chosen = end["algorithm"]
    assert 0 < len(tried(lines)) <= 4 * max(line.get("phase", 0) for line in lines)
    assert {name.split(":")[0] for name in tried(lines)} == {"native"}
    assert chosen in tried(lines)
    events = mpiprof.open(folder / "trace").events
    reductions = events[events["operation"] == "allreduce"]
    ran = reductions["algorithm"].astype(str)
    # The last reduction can be a probe of a later phase.
    assert ran[reductions["choice"] == "chosen"].iloc[-1] == chosen and tried(lines) <= set(ran)
    learned = (folder / "learned.jsonl").read_text().splitlines()
    names = {":".join(name.split(":")[:2]) for name in tried(lines)}
    before = len(lessons(mpi, 1, 1).splitlines())
    assert {json.loads(line)["algorithm"] for line in learned[before:]} == names
    assert main(["tune", str(folder / "trace"), "--found", "-o", str(folder / "plan.json")]) == 0
    (entry,) = json.loads((folder / "plan.json").read_text())
    parameters = [f":{k}={v}" for k, v in entry.get("parameters", {}).items()]
    assert entry["algorithm"] + "".join(parameters) == chosen
    for number, switch in enumerate(("plan.json", "plan.json,auto")):
        again = command(
            mpi, folder, f"again-{number}", switch, str(PROGRAMS / "selection_loops.py")
        )
        env = {"MPI4PY_RC_THREAD_LEVEL": "serialized"}
        run_mpi(mpi, 2, [*again, "sums", "10"], cwd=folder, env=env, check=True)
        events = mpiprof.open(folder / f"again-{number}").events
        ran = events.loc[events["operation"] == "allreduce", "algorithm"].astype(str)
        assert chosen in set(ran) and not set(ran) - {chosen, "native"}


def test_none_is_tried_where_no_communicator_is_to_be_had(openmpi: Mpi, tmp_path: Path) -> None:
    """On 3 processes: after MPI_Comm_idup a duplicate is refused, and nothing else changes."""
    lines = switched(openmpi, 3, tmp_path, "later")
    (end,) = [line for line in lines if line["kind"] == "end"]
    assert end["instances"] >= 110
    ran = mpiprof.open(tmp_path / "trace").events["algorithm"].astype(str)
    assert not {name for name in set(ran) if name.startswith("native:")} - {
        "native:segmented_ring"  # forced by the environment
    }


@pytest.mark.parametrize("which", [0, 1])
def test_none_is_tried_where_one_member_cannot(mpich: Mpi, which: int, tmp_path: Path) -> None:
    """On 2 processes: the settings of MPICH cannot be changed in one of the processes."""
    alone = f'[ "$PMI_RANK" = {which} ] && export MPIR_CVAR_COLLECTIVE_FALLBACK=error; exec "$@"'
    lines = switched(mpich, 2, tmp_path, "sums", "sh", "-c", alone, "sh")
    assert not [name for name in tried(lines) if name.startswith("native:")]
    assert lines[-1]["kind"] == "end" and lines[-1]["instances"] >= 110
