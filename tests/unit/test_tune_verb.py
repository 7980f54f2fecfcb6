"""The verb `tune`: output and files, a plan that runs, and replay on ranks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support import PROGRAMS, tune_traces
from support.jobs import run, run_mpi, run_verb
from support.mpis import Mpi
from support.trace_tables import table_rows
from support.tune_traces import HOP, LATE_NS, MILLION, RANKS

import mpiprof
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.tune.replay.imposed_arrivals import (
    ReplayedTask,
    ReplayMeasurement,
    Task,
    drop_slower_half,
)
from mpiprof.collectives.variant import NATIVE

APP = """import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
counts = [1 << 20] + [0] * (comm.size - 1)
mine, whole = np.full(counts[comm.rank], 7, np.uint8), np.zeros(1 << 20, np.uint8)
for _ in range(3):
    comm.Allgatherv(mine, [whole, counts])
assert (whole == 7).all()
"""
LINE = 7


def tune(folder: Path, *words: object) -> tuple[int, str, str]:
    """Run the verb in this process; returns its exit code, output and errors."""
    return run_verb("tune", folder, *words)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a trace with an allgatherv that should run on the pipelined ring."""
    return tune_traces.one_sender(tmp_path_factory.mktemp("tune") / "t", f"app.py:{LINE}:<module>")


def test_table_and_plan(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    code, out, err = tune(trace, "-o", path)
    assert (code, err) == (0, "")
    (line,) = [text for text in out.splitlines() if text.startswith("  allgatherv  ")]
    assert "pipelined_ring:block_size=" in line and line.endswith("use it")
    assert "allreduce at app.py:13 step: " in out
    assert out.splitlines()[-1].startswith("next: mpiexec -n 8 ")
    assert out.rstrip().endswith(f"run --switch {path} synthetic.py")
    (entry,) = json.loads(path.read_text())
    assert (entry["operation"], entry["size"]) == ("allgatherv", RANKS)
    assert entry["call_sites"] == [f"app.py:{LINE}"] and entry["bytes"]["to"] == MILLION
    assert entry["measured"] == {
        "how": "model",
        "mpi": "Synthetic MPI",
        "hosts": ["n0"],
        "date": "2026-01-01",
    }
    assert "us saved" in entry["why"]


@pytest.mark.heavy
def test_summary_by_operation(trace: Path) -> None:
    code, out, _ = tune(trace, "--summary")
    assert code == 0
    (line,) = [text for text in out.splitlines() if text.startswith("  allgatherv")]
    assert "20" in line and "of all" in out and "." * 10 in line
    ring, _ = as_data(trace, "--summary")["summary"]
    assert ring["elapsed_ns"] == pytest.approx(20 * (35 * HOP - LATE_NS), rel=1e-4)
    assert ring["total_wait_ns"] == pytest.approx(20 * 7 * LATE_NS, rel=1e-4)
    # A pipeline takes little more than one hop; the ring takes 35 / 8 hops on average.
    assert 0.5 < ring["saved_ns"] / ring["elapsed_ns"] < 0.8 and ring["perhaps_ns"] == 0


def as_data(folder: Path, *words: object) -> Any:
    """Return the output of --json."""
    code, out, err = tune(folder, "--json", *words)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_json_has_every_candidate(trace: Path) -> None:
    data = as_data(trace, "--site", f"app.py:{LINE}")
    (one,) = data["works"]
    assert one["worth"] == "yes" and one["patterns"] == 16 and one["how"] == "model"
    scores = {c["name"]: c["score_ns"] for c in one["candidates"]}
    assert scores["linear_ring"] == pytest.approx(one["base_ns"], rel=1e-4)
    assert min(scores.values()) == pytest.approx(one["best_ns"])
    assert data["plan"][0]["algorithm"] == "pipelined_ring" and data["written"] is None


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--budget", "0s"], "'0s': not a time from 1s to 24h"),
        (["--budget", "2"], "'2': not a time from 1s to 24h"),
        (["--top", "0"], "'0': not a number from 1 to 1000000"),
        (["--replay", "-n", "1"], "'1': not a number from 2 to"),
        (["-n", "4"], "-n and --cluster require --replay"),
        (["--replay"], "no ranks for the replay"),
        (["--replay", "--found"], "not allowed with"),
        (["--replay", "--machine", "m.json", "-n", "2"], "--machine is an input of the model"),
        (["--found", "--summary"], "only -o goes with it"),
        (["--site", "ap.py:7"], "no such call site in "),
        (["-o", "."], "is a folder: pass a file"),
        (["-o", "none/plan.json"], "no such folder none"),
        (["--machine", "missing.json"], "missing.json: no such file"),
        (["--replay", "-n", "4"], "the trace requires at least 8"),
    ],
)
def test_wrong_use(trace: Path, words: list[str], wrong: str) -> None:
    code, out, err = tune(trace, *words)
    assert (code, out) == (2, "") and wrong in err and err.count("\n") == 1


def test_unknown_call_sites_name_the_nearest(trace: Path) -> None:
    _, _, err = tune(trace, "--site", "ap.py:7")
    assert f"app.py:{LINE}" in err


def test_its_plan_runs(openmpi: Mpi, trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert tune(trace, "-o", path)[0] == 0
    plan = json.loads(path.read_text())
    plan[0]["size"] = 2
    path.write_text(json.dumps(plan))
    (tmp_path / "app.py").write_text(APP)
    words = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "-o", "new"]
    words += ["--switch", str(path), "app.py"]
    done = run_mpi(openmpi, 2, words, cwd=tmp_path, check=True)
    (line,) = [text for text in done.stderr.splitlines() if "measured under" in text]
    assert f"{path}, entry 1: measured under Synthetic MPI" in line
    block = plan[0]["parameters"]["block_size"]
    found = table_rows(mpiprof.open(tmp_path / "new").instances)
    assert set(found["algorithm"]) == {f"pipelined_ring:block_size={block}"}
    assert len(found) == 3


def test_replay_measures_the_candidates(openmpi: Mpi, tmp_path: Path) -> None:
    folder = replayable(tmp_path)
    words = [str(openmpi.python), "-m", "mpiprof", "tune", str(folder), "--replay", "--json"]
    words += ["--budget", "4s", "-o", "p.json"]
    done = run_mpi(openmpi, 3, words, cwd=tmp_path, check=True)
    data = json.loads(done.stdout)
    works = {one["operation"]: one for one in data["works"]}
    assert set(works) == {"allgatherv", "bcast", "gatherv"}
    for one in works.values():
        assert one["how"] == "replay" and one["patterns"] >= 4
        assert 0 < one["base_ns"] < 1e9
    facts = data["replay"]
    assert facts["ranks"] == 3 and facts["laps"] >= 4 and facts["clock_error_ns"] == 0
    assert 0 < facts["arrival_error_median_ns"] <= facts["arrival_error_90_ns"]
    names = {c["name"].split(":")[0] for c in works["bcast"]["candidates"]}
    assert {"binomial", "flat_tree", "chain"} <= names and "scatter_allgather_doubling" not in names
    for entry in json.loads((tmp_path / "p.json").read_text()):
        assert entry["measured"]["hosts"] == [os.uname().nodename]
        assert entry["measured"]["mpi"].startswith("Open MPI v5")


def replayable(folder: Path) -> Path:
    """Write a trace of 3 ranks with irregular sizes, a root that is not 0, and a late rank."""
    import numpy as np
    from support.synthetic import Synthetic

    synthetic = Synthetic(3)
    came = np.arange(1, 7)[:, None] * 10**7 + np.array([0, 1_000_000, 0])
    counts = {0: 5000, 1: 0, 2: 1000}
    vector = ({0: 0, 1: 0, 2: 9000}, {0: 9000, 1: 9000, 2: 0})
    for operation, sent, received, root in (
        ("allgatherv", counts, dict.fromkeys(range(3), 6000), None),
        ("bcast", *vector, 2),
        ("gatherv", counts, {0: 0, 1: 6000, 2: 0}, 1),
    ):
        left = came + 2_000_000
        synthetic.add_collective(operation, came, left, sent=sent, received=received, root=root)
        came = came + 10**8
    return synthetic.write(folder / "r")


def test_halving_retains_the_library_and_close_candidates() -> None:
    import numpy as np

    task = Task("bcast", (NATIVE, "a", "b", "c", "d"), (Problem(2, 8),), (), (0, 1))
    r = ReplayedTask(task, {}, list(task.choices))
    for name, took in ((NATIVE, 90), ("a", 10), ("b", 10.5), ("c", 11), ("d", 14)):
        shot = ReplayMeasurement(0, 0, np.zeros(2, np.int64), np.full(2, int(took * 1e6)), 0)
        r.shots[name] = [shot] * 4
    drop_slower_half(r)
    assert r.remaining == [NATIVE, "a", "b", "c"]


def test_calls_of_a_replay_are_right(mpi: Mpi) -> None:
    done = run_mpi(mpi, 3, [mpi.python, PROGRAMS / "tune_replay_calls.py"])
    assert done.returncode == 0 and done.stdout.strip() == "right: 15", done.stderr[-2000:]


@pytest.mark.everything
@pytest.mark.usefixtures("one_cluster")
def test_replay_on_a_cluster_finds_the_planted_best(
    openmpi: Mpi, trace: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("an emulated cluster needs root")
    words = [str(openmpi.python), "-m", "mpiprof", "tune", str(trace), "--replay", "--json"]
    words += ["--cluster", "8x100mbit", "--budget", "40s", "-o", "plan.json"]
    done = run(words, cwd=tmp_path, check=True)
    ring = json.loads(done.stdout)["works"][0]
    assert ring["best"].startswith("pipelined_ring") and ring["worth"] == "yes"
    assert ring["gain_low_ns"] > ring["base_ns"] / 3
    assert json.loads((tmp_path / "plan.json").read_text())[0]["algorithm"] == "pipelined_ring"
