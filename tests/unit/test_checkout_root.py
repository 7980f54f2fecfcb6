"""Verbs in the root of a clone in which a normal installation is used.

Python imports `mpiprof` from the current folder, where the dashboard is beside the package.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import ROOT
from support.jobs import clean_environment
from support.synthetic import Synthetic

from mpiprof.__main__ import VERBS
from mpiprof.interface.installation import library_folder

# Arguments of verbs that need no trace.
WITHOUT_TRACE = {
    "algorithms": ["barrier"],
    **{verb: ["--help"] for verb in ("bench", "calibrate", "doctor", "view")},
    "run": ["--record", "off", "/bin/true"],  # replaces the process, so it is last
}
VERBS_IN_TURN = """
import json, sys
from mpiprof.__main__ import main
for words in json.loads(sys.argv[1]):
    print(words[0], flush=True)
    try:
        main(words)
    except SystemExit:
        pass
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for sys.path with the files that a normal installation has."""
    site = tmp_path_factory.mktemp("site")
    unused = shutil.ignore_patterns("__pycache__", "*.c", "*.h", "*.cmake", "CMakeLists.txt")
    shutil.copytree(ROOT / "mpiprof", site / "mpiprof", ignore=unused)
    shutil.copytree(ROOT / "dashboard", site / "mpiprof" / "dashboard", ignore=unused)
    shutil.copytree(library_folder(), site / "mpiprof" / "lib", dirs_exist_ok=True)
    return site


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    synthetic = Synthetic(3)
    arrivals = 2_000 + 10_000 * np.arange(20)[:, None] + np.array([[0, 0, 5_000]])
    exits = np.full_like(arrivals, 100) + arrivals.max(1, keepdims=True)
    synthetic.add_collective("barrier", arrivals, exits, sent=0, received=0)
    return synthetic.write(tmp_path_factory.mktemp("trace") / "t", finished=True)


def run_python(installed: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run this Python, which finds mpiprof in `cwd` or in the installation."""
    search_path = os.pathsep.join([str(installed), *filter(None, sys.path)])
    # Without `site`, the finder of an editable install is absent.
    command = [sys.executable, "-S", *words]
    environment = clean_environment({"PYTHONPATH": search_path})
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.heavy
def test_every_verb_runs_in_the_root_of_a_clone(
    installed: Path, trace: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    arguments = {verb: [str(trace)] for verb in VERBS} | WITHOUT_TRACE
    arguments["compare"] = [str(trace), str(trace)]
    arguments["export"] += ["--to", "csv", "-o", out]
    words = [[verb, *arguments[verb]] for verb in sorted(VERBS, key="run".__eq__)]
    done = run_python(installed, ROOT, "-c", VERBS_IN_TURN, json.dumps(words))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert {verb for verb in VERBS if f"{verb}\n" in done.stdout} == set(VERBS)


@pytest.mark.heavy
def test_open_in_the_root_of_a_clone(installed: Path, trace: Path) -> None:
    code = (
        "import sys, mpiprof; trace = mpiprof.open(sys.argv[1]); print(mpiprof.__file__);"
        "print(trace.findings(), trace.plot, trace.show.callsites())"
    )
    done = run_python(installed, ROOT, "-c", code, str(trace))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(ROOT / "mpiprof" / "__init__.py")
