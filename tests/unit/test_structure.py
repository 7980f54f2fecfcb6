"""The structure of the sources: no circle of modules or folders, no long file, no vague name.

`make lint` runs this file.
"""

from __future__ import annotations

import ast
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support import ROOT

Edges = dict[str, set[str]]
LONGEST = 400  # lines of a file
# Words that do not say what a module holds.
VAGUE = {
    *("apart", "around", "behind", "beside", "between", "inside", "outside", "whom", "without"),
    *("bodies", "brief", "chance", "choices", "circle", "condition", "derived", "described"),
    *("door", "dropped", "dying", "edges", "ending", "entries", "extent", "extras", "family"),
    *("field", "followed", "grounds", "head", "held", "hold", "invocation", "kept", "lead"),
    *("learned", "life", "lines", "making", "measured", "meeting", "misc", "names", "natives"),
    *("newest", "noted", "notes", "observed", "origin", "others", "own", "owned", "pace", "pairs"),
    *("parts", "patience", "placed", "places", "promises", "quantities", "race", "ran", "room"),
    *("rows", "stage", "symbols", "told", "turns", "utils", "valid", "waiting", "where"),
    *("wording", "work"),
}


def sources() -> list[Path]:
    """Return the files of the checkout that people write: Python, C and JavaScript."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    paths = [ROOT / name for name in listed]
    return [p for p in paths if p.suffix in (".py", ".c", ".h", ".mjs", ".js") and p.exists()]


def shipped() -> list[Path]:
    """Return the files of the installed package."""
    return [p for p in sources() if p.relative_to(ROOT).parts[0] in ("mpiprof", "dashboard")]


def module_name(path: Path) -> str:
    """Return the name under which a module is imported; dashboard/ is mpiprof.dashboard."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == "mpiprof" else ("mpiprof", *parts))


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Return the modules of mpiprof that a module imports, at whatever place in it."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = {f"{base}.{alias.name}" for alias in node.names}
            found |= (names & modules) or ({base} & modules)
    return found - {module_name(path), "mpiprof"}  # the root holds the version


@pytest.fixture(scope="module")
def edges() -> Edges:
    """Return for each module the modules that it imports."""
    paths = [path for path in shipped() if path.suffix == ".py"]
    modules = {module_name(path) for path in paths}
    return {module_name(path): imports_of(path, modules) for path in paths}


def refuse_circle(edges: Edges) -> None:
    """Fail if there is a circle of edges, and name it."""
    try:
        list(TopologicalSorter(edges).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


@pytest.mark.heavy
def test_no_circle_of_modules(edges: Edges) -> None:
    assert len(edges) > 200
    refuse_circle(edges)


@pytest.mark.heavy
def test_no_circle_of_folders(edges: Edges) -> None:
    """The root (`mpiprof.open`) uses everything; nothing but its version is used by others."""
    folders: Edges = {}
    for name, used in edges.items():
        if name != "mpiprof":
            folder = name.split(".")[1]
            others = {module.split(".")[1] for module in used}
            folders.setdefault(folder, set()).update(others - {folder})
    refuse_circle(folders)


def test_a_circle_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="a circle of imports: a -> b -> a"):
        refuse_circle({"a": {"b"}, "b": {"a"}})


def test_no_file_is_long() -> None:
    lengths = {p.relative_to(ROOT).as_posix(): len(p.read_text().splitlines()) for p in sources()}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_module_names_are_not_vague() -> None:
    stems = {path.relative_to(ROOT).as_posix(): path.stem for path in sources()}
    assert [name for name, stem in stems.items() if stem.removeprefix("test_") in VAGUE] == []
