"""Draw the dependency graphs of the folders: Python imports and C includes.

    python docs/tools/graph.py ROOT python.svg core.svg     ROOT: a checkout of any commit

A box is a folder, and an arrow points from a user to the folder that it uses. Transitive arrows are
omitted. Folders in a dependency cycle are red. A box of the core also states how many of its C
files call each other in a cycle; a call counts even if a common header declares the function.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

Graph = dict[str, set[str]]
WIDE, HIGH, GAP, BETWEEN, CHARACTER = 1000, 30, 40, 44, 7.2
STYLE = """<style>svg { background: #fff; font: 12px system-ui, sans-serif }
rect { fill: #f6f7f9; stroke: #5d6875 } .circle { stroke: #d55e00 } text { fill: #1f2730 }
path { fill: none; stroke: #5d6875; stroke-opacity: .55 } path.circle { stroke-opacity: 1 }
marker path { fill: #5d6875; stroke: none }</style>"""
HEAD = (
    '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
    '<path d="M0 0L7 3L0 6z"/></marker></defs>'
)
DEFINED = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z_][\w\s*]*?\b(\w+)\([^;{]*\)\s*\{", re.M)
WORD = re.compile(r"(?<![.>\w])[a-z]\w+\b")
SILENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.S)  # comments and strings
FACADE = ("__init__", "__main__")
ALONE = ("errors", "operations", "datatypes")  # modules beside the packages


# ---- dependencies


def python_folders(root: Path) -> Graph:
    """Return each folder of Python code with the folders that it imports; the core is one."""
    found: Graph = {}
    tops = [root / "mpiprof", root / "dashboard"]
    for path in sorted(p for top in tops for p in top.rglob("*.py")):
        name = folder_of(path.relative_to(root))
        found.setdefault(name, set()).update(used for used in imports(path, root) if used != name)
    return {name: uses & set(found) for name, uses in found.items()}


def folder_of(path: Path) -> str:
    """Return the displayed name of a file's or module's folder."""
    parts = [part for part in path.parts if part != "mpiprof"]
    if len(parts) < 2 and path.suffix == ".py" and parts:
        name = path.stem
        return "mpiprof" if name in FACADE else name
    parts = parts[:-1] if path.suffix == ".py" else parts
    if parts[:1] in (["core"], ["dashboard"]):
        return parts[0]
    return "/".join(parts) or "mpiprof"


def imports(path: Path, root: Path) -> Iterable[str]:
    """Yield the folders that a file imports, including imports within functions."""
    here = path.relative_to(root).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            above = list(here[: len(here) - node.level + 1]) if node.level else []
            base = [*above, *(node.module or "").split(".")] if node.module else above
            yield from (found for a in node.names for found in module(root, [*base, a.name]))
        elif isinstance(node, ast.Import):
            yield from (found for a in node.names for found in module(root, a.name.split(".")))


def module(root: Path, words: list[str]) -> Iterable[str]:
    """Yield the folder of a project module; the last word may be a name in the module."""
    if words[:2] == ["mpiprof", "dashboard"]:
        words = words[1:]
    if words[:1] not in (["mpiprof"], ["dashboard"]) or words[-1] == "__version__":
        return
    for known in (words, words[:-1]):
        path = root.joinpath(*known)
        if path.is_dir():
            yield folder_of(path.relative_to(root))
            return
        if path.with_suffix(".py").is_file():
            yield folder_of(path.with_suffix(".py").relative_to(root))
            return


def core_folders(root: Path) -> tuple[Graph, dict[str, str]]:
    """Return each folder of the core with the folders that it includes, and remarks on boxes."""
    core = root / "mpiprof" / "core"
    files = sorted(p for p in core.rglob("*") if p.suffix in (".c", ".h"))
    at: dict[str, list[Path]] = {}
    for path in files:
        at.setdefault(path.name, []).append(path)
    found: Graph = {}
    for path in files:
        name = core_name(path, core)
        uses = found.setdefault(name, set())
        for included in re.findall(r'^\s*#\s*include "([^"]+)"', path.read_text("utf-8"), re.M):
            known = [p for p in at.get(Path(included).name, []) if p.as_posix().endswith(included)]
            uses.update(core_name(p, core) for p in known[:1])
        uses.discard(name)
    return found, remarks(core, files)


def core_name(path: Path, core: Path) -> str:
    """Return the folder of a core file; an ABI's headers belong to their parent folder."""
    parts = path.relative_to(core).parts[:-1]
    if "abi" in parts:
        return "/".join(parts[: parts.index("abi")]) or "abi"
    return "/".join(parts) or "core"


def remarks(core: Path, files: list[Path]) -> dict[str, str]:
    """Return per folder its number of files, and of the files in its largest cycle."""
    texts = {p: SILENT.sub(" ", p.read_text("utf-8")) for p in files if p.suffix == ".c"}
    home = {name: p for p, text in texts.items() for name in DEFINED.findall(text)}
    calls: Graph = {
        str(p): {str(home[w]) for w in set(WORD.findall(text)) & set(home)} - {str(p)}
        for p, text in texts.items()
    }
    counts: dict[str, list[int]] = {}
    for circle in circles(calls):
        for path in circle:
            count = counts.setdefault(core_name(Path(path), core), [0, 1])
            count[0] += 1
            count[1] = max(count[1], len(circle))
    return {
        name: f"{n} file" + "s" * (n > 1) + (f", {most} in a circle" if most > 1 else "")
        for name, (n, most) in counts.items()
    }


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components in dependency order, used ones first."""
    done: list[set[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            at = stack.index(name)
            done.append(set(stack[at:]))
            del stack[at:]

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return done


# ---- the drawing


def layers(graph: Graph) -> dict[str, int]:
    """Return each folder's height above folders without dependencies; cycles share a layer."""
    level: dict[str, int] = {}
    for part in circles(graph):
        below = [level[u] for name in part for u in graph[name] if u not in part]
        level |= dict.fromkeys(part, 1 + max(below, default=-1))
    return level


def needed(graph: Graph) -> Iterable[tuple[str, str, bool]]:
    """Yield (user, used, in a cycle) of each dependency that is not transitive."""
    part_of = {name: i for i, part in enumerate(circles(graph)) for name in part}
    for name, uses in sorted(graph.items()):
        for used in sorted(uses):
            circle = part_of[name] == part_of[used]
            others = [o for o in uses if o != used and part_of[o] != part_of[name]]
            if circle or not any(used in reached(graph, o) for o in others):
                yield name, used, circle


def reached(graph: Graph, start: str) -> set[str]:
    """Return all folders that a folder uses, directly or indirectly."""
    seen: set[str] = set()
    left = [start]
    while left:
        for used in graph[left.pop()] - seen:
            seen.add(used)
            left.append(used)
    return seen - {start}


def draw(graph: Graph, told: Mapping[str, str] | None = None) -> str:
    """Return a graph as SVG, with users above the folders that they use."""
    told, level = told or {}, layers(graph)
    top = max(level.values(), default=0)
    place: dict[str, tuple[float, float, float]] = {}  # middle, top, width
    for row in range(top + 1):
        names = sorted(n for n in graph if level[n] == row)
        if row:  # above what they use
            names.sort(key=lambda n: middle(n, graph, place))
        widths = [CHARACTER * len(label(n, told)) + 20 for n in names]
        x = (WIDE - sum(widths) - GAP * (len(names) - 1)) / 2
        for name, width in zip(names, widths, strict=True):
            place[name] = x + width / 2, 10 + (top - row) * (HIGH + BETWEEN), width
            x += width + GAP
    lines, boxes, bad = [], [], set()
    for name, used, circle in needed(graph):
        lines.append(arrow(place[name], place[used], circle))
        bad |= {name, used} if circle else set()
    for name, (x, y, width) in place.items():
        kind = ' class="circle"' if name in bad or "circle" in told.get(name, "") else ""
        boxes.append(
            f'<rect{kind} x="{x - width / 2:.0f}" y="{y:.0f}" width="{width:.0f}" height="{HIGH}" '
            f'rx="5"/><text x="{x:.0f}" y="{y + 20:.0f}" text-anchor="middle">'
            f"{escape(label(name, told))}</text>"
        )
    high = (top + 1) * (HIGH + BETWEEN) - BETWEEN + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {high}" width="{WIDE}" '
        f'role="img" aria-label="which folder uses which">{STYLE}{HEAD}{"".join(lines + boxes)}'
        "</svg>\n"
    )


def label(name: str, told: Mapping[str, str]) -> str:
    """Return the text of a box."""
    return f"{name}: {told[name]}" if name in told else name


def middle(name: str, graph: Graph, place: Mapping[str, tuple[float, float, float]]) -> float:
    """Return the mean position of the placed folders that a folder uses."""
    known = [place[used][0] for used in graph[name] if used in place]
    return sum(known) / len(known) if known else WIDE / 2


def arrow(a: tuple[float, float, float], b: tuple[float, float, float], circle: bool) -> str:
    """Return an arrow from the lower edge of a box to the upper edge of another box."""
    kind = ' class="circle"' if circle else ""
    if a[1] == b[1]:  # side by side: below both
        y = a[1] + HIGH
        return f'<path{kind} marker-end="url(#head)" d="M{a[0]:.0f} {y}Q{(a[0] + b[0]) / 2:.0f} \
{y + 40} {b[0]:.0f} {y + 2}"/>'
    begin, end = a[1] + HIGH, b[1] - 2
    half = (begin + end) / 2
    return (
        f'<path{kind} marker-end="url(#head)" d="M{a[0]:.0f} {begin:.0f}C{a[0]:.0f} {half:.0f} '
        f'{b[0]:.0f} {half:.0f} {b[0]:.0f} {end:.0f}"/>'
    )


def write(root: Path, python: Path, core: Path) -> None:
    """Draw both dependency graphs of a checkout into two files."""
    python.write_text(draw(python_folders(root)), "utf-8")
    core.write_text(draw(*core_folders(root)), "utf-8")


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:4]))
