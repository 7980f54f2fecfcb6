"""Imports follow the design's list downwards, and `run` imports nothing heavy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
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
    "account": {"metrics", "trace", "collectives"},
    "metrics": {"trace", "collectives"},
    "causes": {"account", "metrics", "trace", "collectives"},
    "diagnosis": {"causes", "account", "metrics", "trace", "collectives"},
    "formats": {"metrics", "trace", "core"},
    "store": {"causes", "account", "diagnosis", "metrics", "formats", "trace"},
    "timeline": {"store", "metrics", "trace"},
    "reports": {"causes", "account", "diagnosis", "metrics", "trace"},
    "hang": {"causes", "reports", "diagnosis", "metrics", "trace", "launch", "open"},
    "papers": {"store", "metrics", "trace", "collectives", "launch", "open"},
    "tune": {"papers", "store", "diagnosis", "metrics", "trace", "collectives", "launch"},
    "dashboard": {"hang", "reports", "account", "tune", "timeline", "store", "diagnosis", "metrics"}
    | {"trace", "collectives"},
    "commands": {"hang", "reports", "formats", "papers", "tune", "store", "diagnosis", "metrics"}
    | {"timeline", "trace", "collectives", "launch"},
    "__main__": {"commands", "store"},
    "__init__": {"diagnosis", "metrics", "formats", "trace", "dashboard"},
}


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
        used |= {name.split(".")[1] for name in names if name.startswith("mpiprof.")}
    return used


MODULES = sorted([*PACKAGE.rglob("*.py"), *DASHBOARD.rglob("*.py")])


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_imports_go_one_way(path):  # type: ignore[no-untyped-def]
    inside = path.relative_to(ROOT if path.is_relative_to(DASHBOARD) else PACKAGE)
    part = inside.parts[0].removesuffix(".py")
    used = parts_used(path.read_text()) - EVERYBODY - {part, "__version__", "open"}
    assert used <= ALLOWED[part], f"{inside} may not import {used - ALLOWED[part]}"


PACKAGES = sorted(
    path for path in (*PACKAGE.iterdir(), DASHBOARD) if path.is_dir() and path.name in ALLOWED
)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_readme_states_the_imports(package: Path) -> None:
    """Each package has a README of five lines; the last line lists what the package may import."""
    lines = (package / "README.md").read_text().splitlines()
    assert len(lines) == 5
    assert lines[0] == f"# {package.name}"
    assert set(re.findall("`(.+?)`", lines[4])) == ALLOWED[package.name]
    assert set(lines[4].rpartition(": ")[2].rstrip(".").split(", ")) == EVERYBODY
    begin = re.findall("`(.+?)`", lines[3])
    assert begin and all((package / name).exists() for name in begin)


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
    loaded = modules_after(f"import mpiprof.{module}")
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
