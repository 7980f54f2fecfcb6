"""Imports follow the design's list downwards, and `run` imports nothing heavy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support import ROOT
from support.synthetic import Synthetic

PACKAGE = ROOT / "mpiprof"
DASHBOARD = ROOT / "dashboard"  # installs as mpiprof.dashboard

# Parts that every part may use: tables of facts, and the interface to a terminal.
EVERYBODY = {"errors", "facts", "interface"}
# For each part, the parts that it may use beside those.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "facts": set(),
    "interface": set(),
    "launch": set(),
    "core": set(),
    "collectives": {"core"},
    "trace": set(),
    "account": {"trace", "collectives"},
    "causes": {"account", "trace", "collectives"},
    "formats": {"causes", "account", "trace", "core"},
    "reports": {"causes", "account", "trace"},
    "hang": {"causes", "reports", "account", "trace", "launch", "open"},
    "collectives.papers": {"formats", "account", "trace", "collectives", "launch", "open"},
    "collectives.tune": {"collectives.papers", "formats", "causes", "account", "trace"}
    | {"collectives", "launch"},
    "dashboard": {"hang", "reports", "formats", "causes", "account", "trace", "collectives"}
    | {"collectives.tune"},
    "commands": {"hang", "reports", "formats", "causes", "account", "trace", "collectives"}
    | {"collectives.papers", "collectives.tune", "dashboard", "launch"},
    "__main__": {"commands", "formats"},
    "__init__": {"causes", "account", "formats", "trace", "dashboard"},
}


def find_part(names: Sequence[str]) -> str:
    """Return the part of mpiprof that a module is in, from the names of its folders and its own."""
    part = ".".join(names[:2])
    return part if part in ALLOWED else names[0]


def parts_used(source: str) -> set[str]:
    """Return the parts of mpiprof that a module imports anywhere."""
    used = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        used |= {find_part(name.split(".")[1:]) for name in names if name.startswith("mpiprof.")}
    return used


MODULES = sorted([*PACKAGE.rglob("*.py"), *DASHBOARD.rglob("*.py")])


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_imports_go_one_way(path):  # type: ignore[no-untyped-def]
    inside = path.relative_to(ROOT if path.is_relative_to(DASHBOARD) else PACKAGE)
    part = find_part(inside.with_suffix("").parts)
    used = parts_used(path.read_text()) - EVERYBODY - {part, "__version__", "open"}
    assert used <= ALLOWED[part], f"{inside} may not import {used - ALLOWED[part]}"


FOLDERS = {name: PACKAGE / name.replace(".", "/") for name in ALLOWED} | {"dashboard": DASHBOARD}
PACKAGES = [name for name, folder in FOLDERS.items() if folder.is_dir()]
MOST_PACKAGES = 12  # in `mpiprof`


def test_a_stranger_finds_few_packages() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert packages <= ALLOWED.keys() and len(packages) <= MOST_PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_readme_states_the_imports(package: str) -> None:
    """Each package has a README of five lines; the last line lists what the package may import."""
    folder = FOLDERS[package]
    lines = (folder / "README.md").read_text().splitlines()
    assert len(lines) == 5
    assert lines[0] == f"# {folder.name}"
    assert set(re.findall("`(.+?)`", lines[4])) == ALLOWED[package]
    assert set(lines[4].rpartition(": ")[2].rstrip(".").split(", ")) == EVERYBODY
    begin = re.findall("`(.+?)`", lines[3])
    assert begin and all((folder / name).exists() for name in begin)


def modules_after(code: str) -> set[str]:
    """Return the modules that are loaded after some code ran in a fresh interpreter."""
    code += "\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


AS_A_PROGRAM = """
import os, sys
from mpiprof.__main__ import main
os.execve = lambda *_: os.write(1, " ".join(sys.modules).encode()) and os._exit(0)
main(["run", "-q", "-o", "trace", *sys.argv[1:], "app.py"])
"""


@pytest.mark.parametrize("options", [[], ["--switch", "auto"], ["--switch", "bcast=chain"]])
def test_run_imports_nothing_heavy(options: list[str], tmp_path: Path) -> None:
    """The imports of each rank of a job when it becomes the program."""
    (tmp_path / "app.py").write_text("from mpi4py import MPI\n")
    words = [sys.executable, "-c", AS_A_PROGRAM, *options]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True)
    loaded = set(done.stdout.split())
    assert "mpiprof.launch.program" in loaded, done.stderr
    heavy = {"numpy", "pandas", "scipy", "mpi4py", "subprocess", "importlib.metadata"}
    if not options:
        heavy.add("ctypes")  # the catalogue, against which a rule is checked, is in the library
    assert not loaded & heavy


@pytest.mark.parametrize("module", ["papers.harness.runner", "tune.replay.jobs"])
def test_ranks_that_measure_import_no_pandas(module: str) -> None:
    """Otherwise each rank of a study or a replay would take half a second longer to start."""
    loaded = modules_after(f"import mpiprof.collectives.{module}")
    assert "numpy" in loaded and not loaded & {"pandas", "pyarrow", "scipy"}


def test_importing_mpiprof_does_no_work() -> None:
    loaded = modules_after("import mpiprof")
    assert not loaded & {"numpy", "pandas", "mpiprof.trace", "mpiprof.launch"}


@pytest.mark.heavy
def test_a_short_report_imports_little(tmp_path: Path) -> None:
    """Modules with an import time above that of the report would dominate its time."""
    synthetic = Synthetic(3)
    arrivals = np.arange(1, 91)[:, None] * 10**6 + np.array([0, 0, 10**5])
    synthetic.add_collective(
        "allreduce", arrivals, arrivals.max(1, keepdims=True) + 5_000 + 0 * arrivals
    )
    trace = str(synthetic.write(tmp_path / "trace"))
    loaded = modules_after(
        f"from mpiprof.__main__ import main; main(['report', '--all', {trace!r}])"
    )
    assert "What" in loaded  # the findings were made
    assert not loaded & {"ruptures", "scipy.stats", "scipy.signal", "scipy.optimize", "plotly"}
