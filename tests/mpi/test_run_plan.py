"""`run` with plans that do not apply, and with options for --switch auto."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.jobs import run
from support.mpis import Mpi

from mpiprof.collectives.tune import plan, plan_check
from mpiprof.collectives.tune.plan import Plan
from mpiprof.errors import UsageError

NAMES = ("SWITCH", "AUTO", "REPRODUCIBLE", "LEARN", "SWITCH_MODEL")
APP = f"""import os
def f(): pass
if os.environ.get("PMI_RANK", "0") == "0":  # lines of several ranks would cut each other
    for name in {NAMES}:
        print(name, os.environ.get("MPIPROF_" + name))
f()
"""
GOOD = {"operation": "alltoall", "algorithm": "ring"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program that prints the recorder's environment."""
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def write(folder: Path, *entries: object) -> Path:
    """Write a plan file."""
    path = folder / "plan.json"
    path.write_text(json.dumps(entries))
    return path


def outcome(mpi: Mpi, folder: Path, *words: str, n: int | None = None) -> tuple[int, str, str]:
    """Start the program with `run` and these options; returns code, output and errors.

    The program calls no MPI; the line that says so is left out.
    """
    many = ["-n", str(n)] if n else []
    done = run([mpi.python, "-m", "mpiprof", "run", *many, *words, "app.py"], cwd=folder)
    lines = done.stderr.splitlines(keepends=True)
    errors = [line for line in lines if not line.startswith("mpiprof: no MPI call was recorded: ")]
    return done.returncode, done.stdout, "".join(errors)


def variables(text: str) -> dict[str, str]:
    """Return the variables that the program printed."""
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_recorder_gets_auto_and_its_options(mpich: Mpi, folder: Path) -> None:
    path = write(folder, GOOD)
    words = ["--reproducible", "--learn", "learned.jsonl"]
    for n in (None, 1):
        code, out, err = outcome(mpich, folder, "--switch", f"{path},auto", *words, n=n)
        assert code == 0 and err == ""
        assert variables(out) == {
            "SWITCH": "alltoall ring 0 -1 * * *;",
            "AUTO": "1",
            "REPRODUCIBLE": "1",
            "LEARN": str(folder / "learned.jsonl"),
            "SWITCH_MODEL": "None",
        }
    code, out, _ = outcome(mpich, folder, "--switch", "auto")
    found = variables(out)
    assert found.pop("AUTO") == "1" and set(found.values()) == {"None"}


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--explain"], "`run` has no option --explain: `report TRACE` shows"),
        (["--reproducible"], "--reproducible requires --switch auto"),
        (["--plan-out", "x.json"], "`tune TRACE --found -o plan.json` writes"),
        (["--strict-plan"], "--strict-plan requires --switch PLAN.json"),
        (["--switch", "alltoall=ring", "--reproducible"], "--switch alltoall=ring,auto"),
        (["--switch", "auto", "--strict-plan"], "names no plan file"),
        (["--switch", "random:1,auto"], "cannot be combined with other items"),
        (["--switch", "auto", "--partial"], "--partial forbids"),
        (["--switch", "auto", "--record", "off"], "requires the recorder"),
        (["--learn", "x.jsonl"], "--learn requires --switch auto"),
        (["--switch", "auto", "--learn", "."], "is a folder: pass a file"),
        (["--switch", "auto", "--learn", "none/x.jsonl"], "no such folder none"),
        (["--switch", "auto", "--learn", "app.py"], "holds nothing that was learned"),
        (["--switch", "app.py:2=ring"], "that line of app.py contains no call; the nearest: "),
    ],
)
def test_wrong_options_start_nothing(
    mpich: Mpi, folder: Path, words: list[str], wrong: str
) -> None:
    code, out, err = outcome(mpich, folder, *words)
    assert (code, out) == (2, "") and wrong in err and err.count("\n") == 1


MISFITS = [
    (GOOD | {"operation": "alltoal"}, "unknown operation 'alltoal'; the nearest: alltoall"),
    (GOOD | {"algorithm": "pair", "size": [6, 12]}, "pair cannot run on 6, 12 processes: it"),
    (GOOD | {"size": {"from": 32}}, "applies to communicators of 32 to "),
    ({"call_sites": ["app.py:2"], "algorithm": "ring"}, "the nearest: 3, 5, 6"),
    ({"call_sites": ["app.py:400"], "algorithm": "ring"}, "the nearest: 3, 5, 6"),
]


def test_inapplicable_entries_are_reported_and_others_used(mpich: Mpi, folder: Path) -> None:
    path = write(folder, *(entry for entry, _ in MISFITS), GOOD)
    code, out, err = outcome(mpich, folder, "--switch", str(path), n=1)
    assert code == 0 and variables(out)["SWITCH"] == "alltoall ring 0 -1 * * *;"
    lines = err.splitlines()
    assert len(lines) == len(MISFITS)
    for number, (_, wrong) in enumerate(MISFITS, 1):
        messages = [line for line in lines if f"{path}, entry {number}: " in line]
        assert len(messages) == 1 and wrong in messages[0] and messages[0].endswith("(left out)")


@pytest.mark.parametrize(("entry", "wrong"), MISFITS)
def test_strict_plan_refuses(mpich: Mpi, folder: Path, entry: object, wrong: str) -> None:
    path = write(folder, GOOD, entry)
    words = ("--switch", str(path), "--strict-plan")
    code, out, err = outcome(mpich, folder, *words, n=4)
    assert (code, out) == (2, "")
    assert f"{path}, entry 2: " in err and wrong in err and err.count("\n") == 1


def test_files_that_are_no_plan_are_refused(mpich: Mpi, folder: Path) -> None:
    path = folder / "plan.json"
    path.write_text('[{"operation":\n]')
    code, out, err = outcome(mpich, folder, "--switch", f"{path},alltoall=ring")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert err.startswith(f"mpiprof: {path}, line 2, column 1: invalid JSON: ")
    code, out, err = outcome(mpich, folder, "--switch", f"{path}", "--or-bare", n=2)
    assert code == 0 and variables(out)["SWITCH"] == "None"
    assert err.count("the program runs without selection") == err.count("\n") == 1
    assert outcome(mpich, folder, "--switch", "missing.json")[0] == 2


def test_a_plan_measured_on_another_machine_is_reported(mpich: Mpi, folder: Path) -> None:
    here = {"how": "replay", "mpi": mpi_here(mpich), "hosts": [os.uname().nodename], "date": ""}
    foreign = here | {"mpi": "Open MPI 5.0.11"}
    path = write(
        folder,
        GOOD | {"measured": here},
        {"operation": "bcast", "algorithm": "chain", "measured": foreign},
        {"operation": "barrier", "algorithm": "linear", "measured": here | {"hosts": ["n0"]}},
        {"operation": "reduce", "algorithm": "native:linear", "measured": foreign},
    )
    code, out, err = outcome(mpich, folder, "--switch", str(path))
    assert code == 0
    used = [line.split()[:2] for line in variables(out)["SWITCH"].split(";") if line]
    assert used == [["alltoall", "ring"], ["bcast", "chain"], ["barrier", "linear"]]
    first, second = err.splitlines()
    assert "plan.json, entries 2, 4: measured under Open MPI 5.0.11 on " in first
    assert "but this is MPICH" in first and "entry 3: measured under MPICH" in second
    code, out, err = outcome(mpich, folder, "--switch", str(path), "--strict-plan")
    assert (code, out) == (2, "") and "entries 2, 4" in err


def mpi_here(mpi: Mpi) -> str:
    """Return an MPI's name and version as it reports them itself."""
    code = "from mpi4py import MPI; print(MPI.Get_library_version().split()[2])"
    return f"MPICH {run([mpi.python, '-c', code], check=True).stdout.strip()}"


def checked(*entries: object, ranks: int | None = None, folder: Path) -> Plan:
    """Return the remaining plan after the check."""
    return plan_check.check_plan(
        plan.read(str(write(folder, *entries)), strict=False), ranks, strict=False
    )


def test_overlapping_entries(tmp_path: Path) -> None:
    def messages(first: dict[str, object], second: dict[str, object]) -> tuple[str, ...]:
        entries = (GOOD | first, GOOD | {"algorithm": "bruck"} | second)
        made = checked(*entries, folder=tmp_path)
        assert {rule.entry for rule in made.rules} == {1, 2}
        return made.remarks

    assert (
        "entry 2: overlaps with entry 1 (alltoall), which takes precedence" in messages({}, {})[0]
    )
    assert messages({"bytes": {"to": 99}}, {"bytes": {"from": 99}})
    assert messages({"size": [4]}, {"size": {"from": 2, "to": 9}})
    assert messages({"call_sites": ["a.py:1", "a.py:2"]}, {"call_sites": ["a.py:2"]})
    assert not messages({"bytes": {"to": 98}}, {"bytes": {"from": 99}})
    assert not messages({"size": [4]}, {"size": 5})
    assert not messages({"call_sites": ["a.py:1"]}, {})
    assert not messages({}, {"algorithm": "ring"})
    both = plan.read(str(write(tmp_path, GOOD, GOOD | {"algorithm": "bruck"})))
    with pytest.raises(UsageError, match="overlaps with entry 1"):
        plan_check.check_plan(both, None, strict=True)


def test_sizes_of_the_job(tmp_path: Path) -> None:
    entry = GOOD | {"size": 8}
    assert len(checked(entry, ranks=8, folder=tmp_path).rules) == 1
    assert len(checked(entry, ranks=None, folder=tmp_path).rules) == 1
    assert "the job has 4 ranks" in checked(entry, ranks=4, folder=tmp_path).remarks[0]
    pair = GOOD | {"algorithm": "pair", "size": {"from": 5, "to": 9}}
    assert len(checked(pair, folder=tmp_path).rules) == 1
