"""The core's folders use only folders above them, and no two files depend on each other.

Folders and circles of headers are checked in the includes, circles of source files in the calls of
the compiled files.
"""

from __future__ import annotations

import re
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support import ROOT

CORE = ROOT / "mpiprof" / "core"
LAYERS = (
    *("base", "tracefile", "timing", "callsite", "record", "schedule", "schedule/algorithms"),
    *("executor", "selection/rules", "selection/online", "selection/dispatch", "init"),
    *("python_api", "otf2"),
)
# libc functions that the recorder wraps once loaded; the core calls them as libc's.
WRAPPED_MASKS = {"pthread_sigmask", "sigprocmask"}
# Names without their file's prefix: the Python API, MPI's own, wrapped libc functions, and a name
# that represents a line of each user.
NOT_BY_FILE = {
    *("mpiprof_calibrate", "mpiprof_study_choose"),
    *("MPI_Pcontrol", "mpi_pcontrol", "mpi_pcontrol_", "mpi_pcontrol__", "MPI_PCONTROL"),
    *("mpi_pcontrol_f08_", "predefined", "py", "self", "hooks"),
    *("sigaction", "signal", "bsd_signal", "sysv_signal", "__sysv_signal", "sigset"),
    *WRAPPED_MASKS,
}

Edges = dict[str, set[str]]


def files(pattern: str) -> list[Path]:
    """Return the files of the core, without the files of an ABI."""
    return [path for path in sorted(CORE.rglob(pattern)) if "abi" not in path.parts]


def module(path: Path) -> str:
    """Return a source file's folder and stem."""
    return path.relative_to(CORE).with_suffix("").as_posix()


def included() -> Edges:
    """Return the headers that each file includes; a header may declare several source files."""
    made = {"abi.h", "natives.h", "build.h"}
    return {
        path.relative_to(CORE).as_posix(): set(re.findall(r'#include "(.+?)"', path.read_text()))
        - made
        for path in files("*.[ch]")
    }


@pytest.fixture(scope="module")
def objects() -> dict[str, Path]:
    """Return the object files of Open MPI's recorder from the installation."""
    folders = (ROOT / "build").glob("*/CMakeFiles/core-openmpi.dir")
    newest = max(folders, key=lambda folder: folder.stat().st_mtime)
    found = {
        path.relative_to(newest).as_posix().removesuffix(".c.o"): path
        for path in newest.rglob("*.c.o")
    }
    return {name: path for name, path in found.items() if (CORE / f"{name}.c").exists()}


def symbols(path: Path, *options: str) -> set[str]:
    """Return the names that `nm` lists for an object file."""
    listed = subprocess.run(["nm", *options, path], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in listed.stdout.splitlines()}


@pytest.fixture(scope="module")
def owner(objects: dict[str, Path]) -> dict[str, str]:
    """Return the module that defines each function and variable."""
    return {
        name: module_
        for module_, path in objects.items()
        for name in symbols(path, "--defined-only", "--extern-only")
        - {"predefined"}  # defined by abi.h
        - WRAPPED_MASKS
    }


@pytest.fixture(scope="module")
def called(objects: dict[str, Path], owner: dict[str, str]) -> Edges:
    """Return the modules that the compiled code of each module needs."""
    return {
        module_: {owner[name] for name in symbols(path, "-u") if name in owner} - {module_}
        for module_, path in objects.items()
    }


def check_layers(edges: Edges) -> None:
    """Fail if a folder uses a folder below it, or if files depend on each other."""
    rank = {layer: i for i, layer in enumerate(LAYERS)}
    for name, others in edges.items():
        for other in others:
            layer, used = name.rpartition("/")[0], other.rpartition("/")[0]
            assert rank[used] <= rank[layer], f"{name} uses {other}"
    try:
        list(TopologicalSorter(edges).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of files: {' -> '.join(error.args[1])}")


def test_every_folder_is_a_layer() -> None:
    assert {module(path).rpartition("/")[0] for path in files("*.c")} == set(LAYERS)


def test_what_is_included() -> None:
    check_layers(included())


@pytest.mark.heavy
def test_what_is_called(called: Edges) -> None:
    assert len(called) > 60
    check_layers(called)


@pytest.mark.heavy
def test_what_is_called_is_included(objects: dict[str, Path], owner: dict[str, str]) -> None:
    """The includes of a file show its dependencies; calls in a header count for its users."""
    includes = included()
    words = {
        path.relative_to(CORE).as_posix(): set(re.findall(r"\w+", path.read_text()))
        for path in files("*.h")
    }
    for name, path in objects.items():
        direct = includes[f"{name}.c"]
        headers = direct.union(*(includes[header] for header in direct))
        needed = {symbol for symbol in symbols(path, "-u") if symbol in owner}
        missing = needed.difference(*(words[header] for header in headers))
        assert not missing, f"{name}.c needs {missing} without including their header"


@pytest.mark.heavy
def test_functions_are_named_after_their_file(objects: dict[str, Path]) -> None:
    for name, path in objects.items():
        stem = name.rpartition("/")[2].rstrip("s")
        names = symbols(path, "--defined-only", "--extern-only") - NOT_BY_FILE
        wrong = {symbol for symbol in names if not symbol.startswith(stem)}
        assert not wrong, f"{name}.c defines {wrong}"


# Member of struct selection -> the file that writes it. robust_routine.c replaces two files.
PARTS = {
    "choice": "current_choice",
    "log": "key_log",
    "model": "candidate_set",
    "observed": "observe",
    "phases": "decide",
    "probing": "probe",
    "robust": "robust_routine",
    "window_cost": "window_length",
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_selection_is_written_by_one_file(part: str) -> None:
    written = re.compile(rf"->{part}(\.|->)[\w.\[\]]+( [-+|]?=|\+\+|--)[^=]|\+\+\w+->{part}\b")
    writers = {p.stem for p in files("*.c") if written.search(p.read_text())}
    replacements = {"robust_routine"} if PARTS[part] in ("decide", "probe") else set()
    assert writers <= {PARTS[part], *replacements}


def test_decisions_do_not_depend_on_their_log() -> None:
    """The files that decide do not include the log of decisions."""
    found = included()
    names = ("decide", "robust_routine", "current_choice", "observe", "window_length", "probe")
    for name in (*names, "rank_test"):
        file = f"selection/online/{name}"
        includes = found[f"{file}.c"] | found.get(f"{file}.h", set())
        assert "selection/online/key_log.h" not in includes
