"""Start-up cost of a rank before its program: the imports of `run`, and their necessity."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mpiprof.__main__ import main

MODULES = 80  # of mpiprof and Python, beyond those of an idle Python; at present 75
UNUSED = ("numpy", "pandas", "subprocess", "socket", "email", "logging", "concurrent.futures")


def modules(*words: str) -> set[str]:
    """Return the modules that a Python has imported when it ends."""
    reported = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=False
    ).stderr
    return {
        line.rpartition("|")[2].strip() for line in reported.splitlines() if "import time" in line
    }


def test_a_rank_imports_little() -> None:
    """The program is no MPI program; `run` reports that after all its imports."""
    found = modules("-m", "mpiprof", "run", "--", "/bin/true") - modules("-c", "import runpy")
    assert "mpiprof.launch.options" in found
    assert not {f for f in found if f.startswith(UNUSED)}
    assert len(found) < MODULES


def test_the_agent_of_a_node_imports_no_pandas() -> None:
    """It runs beside the program on each node."""
    imported = modules("-c", "import mpiprof.hang.agent")
    assert "mpiprof.hang.agent" in imported
    assert not {name for name in imported if name.startswith(("pandas", "scipy", "pyarrow"))}


class BecomeError(Exception):
    """Raised instead of becoming another program."""


def words_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[str], dict[str, str]]:
    """Return the words and environment that `run` would execute."""

    def become(argv: Any, environment: Any) -> None:
        raise BecomeError(list(argv), dict(environment))

    monkeypatch.setattr("mpiprof.commands.run.replace_process", become)
    with pytest.raises(BecomeError) as raised:
        main(["run", *words])
    argv, environment = raised.value.args
    return argv, environment


def test_ranks_on_this_machine_start_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPIPROF_SWITCH", "left from an earlier run")
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "COBALT_JOBID"):
        monkeypatch.delenv(name, raising=False)
    Path("app.py").write_text("")
    argv, environment = words_of(monkeypatch, "-n", "2", "-q", "-o", "t", "app.py", "x y")
    at = argv.index("env")
    assert "-n" in argv[:at] and "2" in argv[:at]
    end = argv.index(sys.executable, at)
    reported = dict(word.split("=", 1) for word in argv[at + 1 : end])
    assert argv[end:][-2:] == ["app.py", "x y"] and "mpiprof" not in argv[end:]
    assert reported["MPIPROF_TRACE"] == str(tmp_path / "t")
    assert reported["MPIPROF_QUIET"] == "1"
    assert "libmpiprof" in reported["LD_PRELOAD"]
    assert "LD_PRELOAD" not in environment or "libmpiprof" not in environment["LD_PRELOAD"]
    assert not [name for name in environment if name == "MPIPROF_SWITCH"]
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("why", ["machines", "switch", "watch", "summary", "name"])
def test_ranks_determine_rank_specific_settings(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text("")
    words = ["-n", "2", "-o", "t", "app.py"]
    if why == "machines":
        monkeypatch.setenv("SLURM_JOB_ID", "1")
    elif why == "watch":
        words = ["--watch", "60s", *words]
    elif why == "summary":
        words = ["--summary-to", "s.json", *words]
    elif why == "switch":
        words = ["--switch", "bcast=binomial", *words]
    else:
        python = tmp_path / "a=b"
        python.symlink_to(sys.executable)
        words = ["-n", "2", "-o", "t", "--mpi", "mpich", "--", str(python), "app.py"]
    argv, _ = words_of(monkeypatch, *words)
    assert "env" not in argv
    assert argv[argv.index("mpiprof") + 1 :][:2] == ["run", "--named"]
