"""The structure of the sources: no circle of modules or folders, no long file, no vague name.

The scripts of the timeline have no circle either, and each part of their state has one owner.

`make lint` runs this file.
"""

from __future__ import annotations

import ast
import re
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support import ROOT

Edges = dict[str, set[str]]
LONGEST = 400  # lines of a file
LONGEST_LINE = 110  # characters of a line of JavaScript
TIMELINE = ROOT / "dashboard" / "assets" / "timeline"
# A write to a part of the timeline's state `t`, also by its name only: t.part.field = 1,
# Object.assign(part, ...), t.part.field.add(1), [t.part.field] = [1].
STATE_WRITES = (
    r"(?<![\w.])(?:t\.)?(\w+)\.\w+(?:\[[^]]*\])?\s*(?:[-+*/|&?]{0,2}=(?![=>])|\+\+|--)",
    r"Object\.assign\((?:t\.)?(\w+)[,.]",
    r"(?<![\w.])t\.(\w+)\.\w+\.(?:add|clear|delete|pop|push|set|shift|sort|splice|unshift)\(",
    r"\[[^][=]*(?<![\w.])t\.(\w+)\.\w+[^][=]*\] = ",
)
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
    """The root (`mpiprof.open`) uses everything; nothing but its version is used by others.

    The packages in `collectives` count as folders: they use traces, whose readers use the schedules
    of `collectives`.
    """

    def find_folder(module: str) -> str:
        first, *parts = module.split(".")[1:]
        is_package = first == "collectives" and parts and parts[0] in ("papers", "tune")
        return f"{first}.{parts[0]}" if is_package else first

    folders: Edges = {}
    for name, used in edges.items():
        if name != "mpiprof":
            folder = find_folder(name)
            used_folders = {find_folder(module) for module in used}
            folders.setdefault(folder, set()).update(used_folders - {folder})
    refuse_circle(folders)


def test_a_circle_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="a circle of imports: a -> b -> a"):
        refuse_circle({"a": {"b"}, "b": {"a"}})


def test_no_file_is_long() -> None:
    lengths = {p.relative_to(ROOT).as_posix(): len(p.read_text().splitlines()) for p in sources()}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_no_line_of_javascript_is_long() -> None:
    """Lines of Python and C have limits of their own, which their formatters enforce."""
    scripts = [path for path in sources() if path.suffix in (".js", ".mjs")]
    assert len(scripts) > 40
    assert [
        f"{path.relative_to(ROOT)}:{number}"
        for path in scripts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST_LINE
    ] == []


def find_imports(script: str) -> set[str]:
    """Return the modules that a script imports or exports from."""
    statement = (
        r'^(?:import\b|export \*|export \{[^}]*\} from)[^;"]*"([^"]+)"|\bimport\("([^"]+)"\)'
    )
    found = (first or second for first, second in re.findall(statement, script, re.M))
    return {name.removeprefix("./") for name in found}


def test_no_circle_of_scripts() -> None:
    edges = {path.name: find_imports(path.read_text()) for path in TIMELINE.glob("*.mjs")}
    assert len(edges) > 30
    assert set().union(*edges.values()) <= edges.keys()
    assert edges["timeline.mjs"] >= {"loading.mjs", "state.mjs"}
    refuse_circle(edges)


def test_imports_of_a_script_are_found() -> None:
    script = """
import * as Format from "./format.mjs";
import {
  notify,
  startTimer,
} from "./state.mjs";
import "./page.mjs";
export { time } from "./times.mjs";
export const name = "./name.mjs";
const lazy = () => import("./lazy.mjs");
"""
    names = ("format", "state", "page", "times", "lazy")
    assert find_imports(script) == {f"{name}.mjs" for name in names}


def find_state_writes(script: str) -> set[str]:
    """Return the parts of the timeline's state that a script writes."""
    return {part for pattern in STATE_WRITES for part in re.findall(pattern, script)}


def test_each_part_of_the_timeline_has_one_owner() -> None:
    """Only the module that timeline.mjs names writes a part. Elements of the page may change."""
    text = (TIMELINE / "timeline.mjs").read_text()
    (table,) = re.findall(r"^export const PARTS = \{\n(.*?)^\};", text, re.M | re.S)
    owners = {part: f"{name.lower()}.mjs" for part, name in re.findall(r"(\w+): (\w+),", table)}
    owners["timers"] = "state.mjs"
    assert len(owners) > 10
    for path in TIMELINE.glob("*.mjs"):
        written = find_state_writes(path.read_text()) & owners.keys()
        assert {part for part in written if owners[part] != path.name} == set(), path.name


@pytest.mark.parametrize(
    ("statement", "parts"),
    [
        ("t.range.from = 0;", {"range"}),
        ("const { range } = t; range.from = 0;", {"range"}),
        ("t.data.loads += 1; t.data.loads++;", {"data"}),
        ("t.address.isStep ||= isStep;", {"address"}),
        ("Object.assign(t.chain, { links: [] });", {"chain"}),
        ("t.options.hiddenStates.add(name);", {"options"}),
        ("[t.range.from, t.range.to] = [0, 1];", {"range"}),
        ("if (t.range.from === 0 || t.range.to >= t.range.length) x = t.range.to;", set()),
        ("const f = () => t.layers.models.get(1);", set()),
    ],
)
def test_writes_of_the_state_are_found(statement: str, parts: set[str]) -> None:
    assert find_state_writes(statement) == parts


def test_module_names_are_not_vague() -> None:
    stems = {path.relative_to(ROOT).as_posix(): path.stem for path in sources()}
    assert [name for name, stem in stems.items() if stem.removeprefix("test_") in VAGUE] == []


def test_structs_in_c_have_one_meaning() -> None:
    defined: dict[str, list[str]] = {}
    for path in shipped():
        if path.suffix in (".c", ".h"):
            for name in re.findall(r"^(?:typedef )?struct (\w+) \{", path.read_text(), re.M):
                if not name.startswith("MPI_"):  # one for each ABI
                    defined.setdefault(name, []).append(path.name)
    assert {name: paths for name, paths in defined.items() if len(paths) > 1} == {}


def test_classes_have_one_meaning() -> None:
    defined: dict[str, set[str]] = {}
    for path in shipped():
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    defined.setdefault(node.name, set()).add(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in defined.items() if len(paths) > 1} == {}
