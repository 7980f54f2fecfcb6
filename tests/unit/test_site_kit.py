"""Files of docs/site: module file, installation, job scripts, Slurm's TaskProlog, CI."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from support import ROOT
from support.synthetic import Synthetic

from mpiprof import __version__
from mpiprof.__main__ import main, parser
from mpiprof.launch.options import JOB_VARIABLES, recorder_option_names, variable_name

SITE = ROOT / "docs" / "site"
FILES = [path for path in sorted(SITE.iterdir()) if path.is_file()]
SCRIPTS = [path.name for path in FILES if path.suffix == ".sh"]
CI_FILES = {"github.yml": "vendor.github-workflows", "gitlab.yml": "vendor.gitlab-ci"}
PREFIX = f"/apps/mpiprof/{__version__}"
BATCH_STEP = 0xFFFFFFFB  # SLURM_BATCH_SCRIPT of slurm.h


def make_commands(folder: Path, *names: str) -> dict[str, str]:
    """Write commands that log their words to `log`, and return an environment that finds them."""
    folder.mkdir(exist_ok=True)
    for name in names:
        path = folder / name
        path.write_text(f'#!/bin/bash\nprintf "%q " {name} "$@" >> "$LOG"; echo >> "$LOG"\n')
        path.chmod(0o755)
    (folder / "log").touch()
    return {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(folder / "log")}


def logged(folder: Path) -> list[list[str]]:
    """Return the words of each command that `make_commands` has logged."""
    return [shlex.split(line) for line in (folder / "log").read_text().splitlines()]


def run_bash(words: Sequence[str], environment: dict[str, str], folder: Path) -> str:
    """Run a script of bash, which must succeed, and return its output."""
    return subprocess.run(
        [shutil.which("bash") or "", *words],
        env=environment,
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def check_command(words: Sequence[str]) -> str:
    """Parse a command line of mpiprof, which must be right, and return its verb."""
    parser().parse_args(words)
    return words[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_page_includes_each_file(path: Path) -> None:
    include = f"```{{literalinclude}} ../site/{path.name}\n"
    pages = [page for page in (ROOT / "docs" / "howto").glob("*.md") if include in page.read_text()]
    assert len(pages) == 1


@pytest.mark.parametrize("lua", ["lua51", "lua54"])
def test_the_module_file_adds_only_the_command_to_the_path(lua: str) -> None:
    """Executed by the oldest and the newest Lua that Lmod supports, with Lmod's functions only."""
    runtime = import_module(f"lupa.{lua}").LuaRuntime()
    text, path = list[str](), list[str]()
    sandbox = {
        "help": text.append,
        "whatis": text.append,
        "pathJoin": lambda *parts: "/".join(parts),
        "myModuleVersion": lambda: __version__,
        "prepend_path": lambda name, folder: path.append(f"{name}={folder}"),
    }
    functions = runtime.table_from(sandbox)
    load = "function(text, functions) "
    if lua == "lua51":
        load += "local f = assert(loadstring(text)); setfenv(f, functions); return f() end"
    else:
        load += "return assert(load(text, 'mpiprof.lua', 't', functions))() end"
    runtime.eval(load)((SITE / "mpiprof.lua").read_text(), functions)
    assert path == [f"PATH={PREFIX}/command"]
    assert f"Version: {__version__}" in text
    commands = re.findall(r"^ {4}(?:srun )?mpiprof (.*)", text[0], re.MULTILINE)
    assert [check_command(shlex.split(words)) for words in commands] == ["run", "run", "report"]


def test_the_installation_provides_the_command_without_a_python(tmp_path: Path) -> None:
    """`python3 -m venv` is replaced by a script that makes the two files of an environment."""
    root = tmp_path / "apps" / __version__
    script = tmp_path / "install.sh"
    text = (SITE / "install.sh").read_text()
    assert "root=/apps/mpiprof/$1\n" in text
    script.write_text(text.replace("/apps/mpiprof", str(tmp_path / "apps")))
    environment = make_commands(tmp_path / "bin", "python3", "python", "mpiprof")
    with (tmp_path / "bin" / "python3").open("a") as venv:
        venv.write(f'mkdir -p "$3/bin"; cp {tmp_path}/bin/python {tmp_path}/bin/mpiprof "$3/bin"\n')
    run_bash([str(script), __version__], environment, tmp_path)
    made, installed = logged(tmp_path / "bin")
    assert made == ["python3", "-m", "venv", str(root)]
    assert installed[:4] == ["python", "-m", "pip", "install"]
    assert installed[4].endswith(f"=={__version__}")
    assert [path.name for path in (root / "command").iterdir()] == ["mpiprof"]
    assert (root / "command" / "mpiprof").resolve() == root / "bin" / "mpiprof"


@pytest.mark.parametrize("name", SCRIPTS)
def test_bash_parses_each_script(name: str, tmp_path: Path) -> None:
    run_bash(["-n", str(SITE / name)], dict(os.environ), tmp_path)


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name.startswith("job")])
def test_job_scripts_use_options_that_exist(name: str, tmp_path: Path) -> None:
    environment = make_commands(tmp_path / "bin", "module", "srun", "mpiprof")
    run_bash([str(SITE / name)], environment | {"SLURM_JOB_ID": "4711"}, tmp_path)
    commands = logged(tmp_path / "bin")
    assert commands[0] == ["module", "load", "openmpi", "mpiprof"]
    words = [command[command.index("mpiprof") + 1 :] for command in commands[1:]]
    verbs = [check_command(command) for command in words]
    assert verbs in (["run"], ["run", "report"])
    assert words[0][words[0].index("-o") + 1] == "trace-4711"


def run_prolog(folder: Path, **variables: str) -> list[str]:
    """Return the lines of the TaskProlog of a task with an installation in `folder`."""
    script = folder / "task_prolog.sh"
    text = (SITE / "task_prolog.sh").read_text()
    script.write_text(text.replace("root=/apps/mpiprof/0.1.0", f"root={folder}/0.1.0"))
    task = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "2", "SLURM_PROCID": "0"}
    task |= {"SLURM_SUBMIT_DIR": "/scratch/a b", "SITE_MPIPROF": "1", "PATH": "/nowhere"}
    return run_bash([str(script)], task | variables, folder).splitlines()


MODULES = [
    ("openmpi", "4.1.6", "openmpi-3"),
    ("openmpi", "5.0.11", "openmpi-4"),
    ("mpich", "3.4.3", "mpich-3"),
    ("mpich", "4.1.3", "mpich-4c"),
    ("mpich", "4.3.0", "mpich-4.1"),
    ("mpich", "5.0.1", "mpich-4.1"),
]


@pytest.mark.parametrize(("family", "version", "recorder"), MODULES)
def test_the_prolog_preloads_the_recorder_of_the_loaded_mpi(
    family: str, version: str, recorder: str, tmp_path: Path
) -> None:
    library = tmp_path / f"0.1.0/lib/python3.11/site-packages/mpiprof/lib/libmpiprof-{recorder}.so"
    library.parent.mkdir(parents=True)
    library.touch()
    loaded = {"LMOD_FAMILY_MPI": family, "LMOD_FAMILY_MPI_VERSION": version}
    lines = run_prolog(tmp_path, **loaded, LD_PRELOAD="/lib/other.so")
    pairs = [re.fullmatch(r"export (\w+)=(.+)", line) for line in lines]
    exported = {pair[1]: pair[2] for pair in pairs if pair}
    assert len(exported) == len(lines)
    assert exported.pop("LD_PRELOAD") == f"{library}:/lib/other.so"
    assert exported["MPIPROF_LIBRARY"] == str(library)
    assert exported["MPIPROF_BASE"] == "/scratch/a b/mpiprof-4711.2"
    launcher = {f"MPIPROF_{name}" for name in ("LIBRARY", "VERSION", "BASE")}
    known = {variable_name(name) for name in (*JOB_VARIABLES, *recorder_option_names())}
    assert exported.keys() <= launcher | known


def test_the_prolog_skips_what_it_cannot_record(tmp_path: Path) -> None:
    openmpi = {"LMOD_FAMILY_MPI": "openmpi", "LMOD_FAMILY_MPI_VERSION": "5.0.1"}
    assert run_prolog(tmp_path, **openmpi, SITE_MPIPROF="0") == []
    assert run_prolog(tmp_path, **openmpi, SLURM_STEP_ID=str(BATCH_STEP)) == []
    assert run_prolog(tmp_path, SLURM_PROCID="1") == []
    refused = "print mpiprof: step 2 is not recorded: "
    assert run_prolog(tmp_path) == [f"{refused}no MPI module is loaded"]
    other = {"LMOD_FAMILY_MPI": "other", "LMOD_FAMILY_MPI_VERSION": "1"}
    (line,) = run_prolog(tmp_path, **other)
    assert line.startswith(f"{refused}other/1 is not in the list")
    (line,) = run_prolog(tmp_path, **openmpi)
    assert line.startswith(refused) and line.endswith("libmpiprof-openmpi-4.so is missing")


@pytest.mark.heavy
@pytest.mark.parametrize("name", CI_FILES)
def test_the_ci_files_fit_their_schemas(name: str) -> None:
    words = ["--builtin-schema", CI_FILES[name], str(SITE / name)]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def ci_script(name: str) -> str:
    """Return the commands of a CI file in the order of their execution."""
    jobs: Any = yaml.safe_load((SITE / name).read_text())
    if name == "github.yml":
        steps = jobs["jobs"]["waiting"]["steps"]
        return "\n".join(step["run"] for step in steps if "run" in step)
    job = jobs["waiting"]
    return "\n".join([*job["before_script"], *job["script"], *job["after_script"]])


def ci_commands(name: str, tmp_path: Path) -> list[list[str]]:
    """Run the commands of a CI file with a python that logs, and return those of mpiprof."""
    tmp_path.mkdir(exist_ok=True)
    environment = make_commands(tmp_path / "bin", "python", "git")
    for folder in ("target", *(f"{side}-{run}" for side in ("before", "after") for run in "123")):
        (tmp_path / folder).mkdir()
    (tmp_path / "report.md").touch()  # of `report -o`
    environment |= {"GITHUB_BASE_REF": "main", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    environment |= {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    run_bash(["-euo", "pipefail", "-c", ci_script(name)], environment, tmp_path)
    return [words[3:] for words in logged(tmp_path / "bin") if words[2:3] == ["mpiprof"]]


@pytest.mark.parametrize("name", CI_FILES)
def test_the_ci_files_use_options_that_exist(name: str, tmp_path: Path) -> None:
    verbs = [check_command(words) for words in ci_commands(name, tmp_path)]
    assert verbs[:7] == ["run"] * 6 + ["compare"] and verbs[-1] == "export"


@pytest.mark.heavy
@pytest.mark.parametrize(("late_ms", "code"), [(5, 0), (8, 3)])
def test_the_ci_files_fail_if_waiting_grows(
    late_ms: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two ranks is 5 ms late at 200 instances, in the change 5 or 8 ms."""
    gates = [ci_commands(name, tmp_path / name)[6] for name in CI_FILES]
    assert gates[0] == gates[1]
    for run in range(3):
        for side, late in (("before", 5), ("after", late_ms)):
            synthetic = Synthetic(2)
            begin = 1_000 + np.arange(200)[:, None] * 10_000_000 + np.array([0, run])
            arrivals = begin + np.array([0, late * 1_000_000])
            exits = np.repeat(arrivals.max(1, keepdims=True), 2, 1)
            synthetic.add_collective("allreduce", arrivals, exits)
            synthetic.write(tmp_path / f"{side}-{run + 1}")
    monkeypatch.chdir(tmp_path)
    assert main(gates[0]) == code
