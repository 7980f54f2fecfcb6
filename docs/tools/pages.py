"""Reference pages generated from the code: verbs, columns, algorithms, environment.

Each build generates the pages, which are never committed, so that they always match the code.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import io
import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from mpiprof import __main__ as command_line
from mpiprof.account import columns
from mpiprof.account.column import QUANTITIES
from mpiprof.facts.operations import WAIT_STATES, operations_in
from mpiprof.formats import export_columns
from mpiprof.hang import summary_writer
from mpiprof.launch.options import Recording, variable_name

SUPPRESS = argparse.SUPPRESS  # help of a hidden option
PACKAGE = Path(command_line.__file__).parent
ROOT = Path(__file__).parents[2]
PROCESSES, REMOTE, BYTES = 8, 4, "3K"  # of the diagrams
ENVIRONMENT = Path(__file__).parent.parent / "reference" / "environment.md"


def write(folder: Path) -> None:
    """Write all pages into a folder; raises SystemExit if the code and a page disagree."""
    folder.mkdir(exist_ok=True)
    (folder / "verbs.md").write_text(verbs(), "utf-8")
    (folder / "packages.md").write_text(packages(), "utf-8")
    (folder / "columns.md").write_text(tables(), "utf-8")
    (folder / "waits.md").write_text(waits(), "utf-8")
    (folder / "callsites.md").write_text(callsites(columns.recorded()), "utf-8")
    messages = callsites(columns.of_messages())
    (folder / "message_callsites.md").write_text(messages, "utf-8")
    calls = table(("column", "meaning"), named(export_columns.CALL_COLUMNS))
    (folder / "calls.md").write_text(calls + "\n", "utf-8")
    (folder / "algorithms.md").write_text(algorithms(folder), "utf-8")
    (folder / "environment.md").write_text(options(), "utf-8")
    (folder / "metrics.md").write_text(metrics(), "utf-8")
    (folder / "causes.md").write_text(causes(), "utf-8")
    check_environment(ENVIRONMENT.read_text("utf-8") + options())


# ---- packages

# Every package of Python, from the one that uses no other to the one that uses most.
PACKAGES = (
    *("facts", "interface", "launch", "collectives", "trace", "account", "causes", "formats"),
    *("reports", "hang", "collectives/papers", "collectives/tune", "dashboard", "commands"),
)


def packages() -> str:
    """Return a row for each package: its name and its docstring.

    Raises ValueError if the list and the folders differ.
    """
    there = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"dashboard"}
    if there != {name for name in PACKAGES if "/" not in name}:
        raise ValueError(f"docs/tools/pages.py: PACKAGES differs from the folders: {there}")
    rows = []
    for name in PACKAGES:
        folder = ROOT / name if name == "dashboard" else PACKAGE / name
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
        rows.append((f"`{name}`", " ".join(text.split())))
    return table(("package", "contents"), rows) + "\n"


# ---- causes


def causes() -> str:
    """Return a section for each fact and habit that a report can state: its module's docstring."""
    facts, habits = list[str](), ["## Habits"]
    for path in sorted((PACKAGE / "causes").glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        if any(ast.unparse(base) == "Cause" for node in classes for base in node.bases):
            facts += _describe_cause(tree, "##")
    for path in sorted((PACKAGE / "causes" / "habits").glob("*_delay.py")):
        habits += _describe_cause(ast.parse(path.read_text("utf-8")), "###")
    return "\n\n".join([*facts, *habits]) + "\n"


def _describe_cause(tree: ast.Module, level: str) -> list[str]:
    title, _, text = (ast.get_docstring(tree) or "").partition("\n\n")
    return [f"{level} {' '.join(title.split()).rstrip('.')}", described(add_values(tree, text))]


def add_values(tree: ast.Module, text: str) -> str:
    """Return a docstring with the value after the name of each constant of its module."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        name, value = ast.unparse(node.targets[0]), node.value.value
        if isinstance(value, int | float):
            text = re.sub(rf"\b{name}\b", f"{name} ({value:g})", text)
    return text


# ---- verbs


def verbs() -> str:
    """Return a section per verb: its help, arguments and options."""
    parts = []
    for verb in command_line.VERBS:
        module = command_line.import_command(verb)
        parser = command_line.CommandParser(prog=f"{command_line.PROGRAM} {verb}", add_help=False)
        module.add_arguments(parser)
        parts += [f"## {verb}", described(module.__doc__ or "")]
        rows = [row_of(a) for a in parser._actions if a.help != SUPPRESS]
        parts += [f"{argument}\n: {meaning}" for argument, meaning in rows]
    return "\n\n".join(parts) + "\n"


def described(text: str) -> str:
    """Return a docstring as Markdown; commands and indented paragraphs become code."""
    parts = []
    for part in text.strip("\n").split("\n\n"):
        lines = part.splitlines()
        code = lines[0].startswith(("  ", "python ", "mpiexec "))
        parts.append("```\n" + textwrap.dedent(part).rstrip() + "\n```" if code else prose(part))
    return "\n\n".join(parts)


def prose(text: str) -> str:
    """Return text with Markdown's characters escaped, except for the characters of code."""
    return re.sub(r"(?<!`)(--[a-z][a-z-]*)", r"`\1`", text.replace("*", r"\*"))


def row_of(action: argparse.Action) -> tuple[str, str]:
    """Return an argument as typed on the command line, and its help."""
    value = action.metavar or action.dest.upper()
    if action.choices is not None and not action.metavar:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return f"`{value}`", prose(action.help or "")
    name = ", ".join(action.option_strings)
    if action.nargs != 0:
        name += f" {value}"
    return f"`{name}`", prose(action.help or "")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", r"\|") for c in row) + " |" for row in lines)


# ---- columns


def tables() -> str:
    """Return the column tables of exported data."""
    parts = []
    for name, meanings in (
        ("Events", export_columns.EVENT_COLUMNS),
        ("Instances", export_columns.of_instances()),
        *((name, meanings) for name, meanings in export_columns.EXPORTED_TABLES.items()),
    ):
        parts += [f"## {name}", table(("column", "meaning"), named(meanings))]
    return "\n\n".join(parts) + "\n"


def callsites(chosen: Sequence[columns.Column]) -> str:
    """Return the table of some columns of call sites: name, unit and meaning."""
    rows = [
        (f"`{c.name}`", QUANTITIES[c.quantity].unit, prose(c.details or c.meaning)) for c in chosen
    ]
    return table(("column", "unit", "meaning"), rows) + "\n"


def named(meanings: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return names and meanings as rows."""
    return [(f"`{name}`", prose(meaning)) for name, meaning in meanings.items()]


def waits() -> str:
    """Return the operations of each wait state, and who waits in them."""
    rows = [(operations_in(state), rule.sentence) for state, rule in WAIT_STATES.items()]
    return table(("operation", "who waits"), rows) + "\n"


# ---- the environment


def options() -> str:
    """Return the table of variables that options of `run` set."""
    rows = [
        (f"`{variable_name(option.name)}`", f"`{flags[-1]}`", prose(argument["help"]))
        for option in dataclasses.fields(Recording)
        for flags, argument in [(option.metadata["flags"], option.metadata["parsed"])]
        if option.metadata["recorder"] and argument.get("help", SUPPRESS) != SUPPRESS
    ]
    return table(("variable", "option", "what it does"), rows) + "\n"


# ---- metrics


def metrics() -> str:
    """Return the table of the metrics that `run --summary-to FILE.prom` writes."""
    rows = [
        (f"`mpiprof_{name}`", summary_writer.metric_type(name), labels, meaning)
        for labels, described in (
            ("", summary_writer.GAUGES.values()),
            ("`state`", [summary_writer.STATE_METRIC]),
            ("`operation`, `site`, `number`", summary_writer.SITE_METRICS.values()),
        )
        for name, meaning in described
    ]
    return table(("metric", "type", "further labels", "meaning"), rows) + "\n"


# ---- algorithms


def algorithms(folder: Path) -> str:
    """Return the catalogue of algorithms; a diagram of each goes into the folder."""
    parts = []
    listed = json.loads(said("algorithms", "--json"))
    rows = [row for row in listed if row["library"] is None]  # library algorithms have no schedule
    for (operation, inter), group in groupby(
        rows, key=lambda row: (row["operation"], row["intercommunicator"])
    ):
        parts.append(f"## {operation}" + " on inter-communicators" * inter)
        for row in group:
            parts += [f"### {row['name']}", *entry(row)]
            drawn = drawing(row, folder)
            words = setting_of(row)
            parts.append(f"![{operation} {row['name']} {words}](../_made/{drawn})")
    return "\n\n".join(parts) + "\n"


def entry(row: Mapping[str, Any]) -> list[str]:
    """Return the catalogue's table of an algorithm."""
    names = ("cost", "restrictions", "parameters", "source")
    lines = [(n, f"`{row[n]}`" if n == "cost" else prose(row[n])) for n in names if row[n]]
    return [table(("", ""), lines)]


def setting_of(row: Mapping[str, Any]) -> str:
    """Return the number of processes of an algorithm's diagram, as text."""
    return f"on {PROCESSES} processes" + (f" and {REMOTE}" if row["intercommunicator"] else "")


def drawing(row: Mapping[str, Any], folder: Path) -> str:
    """Draw an algorithm's diagram into a folder; returns the file's name."""
    name = f"{row['operation']}-{'inter-' * row['intercommunicator']}{row['name']}.svg"
    page = folder / f"{name}.html"
    words = ["algorithms", row["operation"], row["name"], "-p", str(PROCESSES)]
    words += ["-q", str(REMOTE)] if row["intercommunicator"] else []
    said(*words, "--bytes", BYTES, "-o", str(page))
    text = page.read_text("utf-8")
    page.unlink()
    style, picture = (
        re.search(pattern, text, re.DOTALL)
        for pattern in (r"<style>.*?</style>", r"<svg .*?</svg>")
    )
    if style is None or picture is None:
        raise SystemExit(f"pages.py: no picture of {row['operation']} {row['name']}")
    drawn = picture[0].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    (folder / name).write_text(drawn.replace(">", f">{style[0]}", 1), "utf-8")
    return name


def said(*words: str) -> str:
    """Return the output of a command line; raises SystemExit if the command fails."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = command_line.main(words)
    if code:
        raise SystemExit(f"pages.py: mpiprof {' '.join(words)} ends with {code}")
    return output.getvalue()


# ---- completeness of hand-written pages


def check_environment(page: str) -> None:
    """Raise SystemExit unless the page names each variable that the code reads."""
    sources = (p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".c", ".h"))
    texts = "".join(p.read_text("utf-8") for p in sources)
    read = set(re.findall(r'"(MPIPROF_[A-Z_]*[A-Z])"', texts))
    check("environment.md", read, set(re.findall(r"`(MPIPROF_[A-Z_]+)`", page)))


def check(page: str, needed: set[str], told: set[str]) -> None:
    """Raise SystemExit if a page lacks required names."""
    if missing := needed - told:
        raise SystemExit(f"docs/reference/{page} does not say what {sorted(missing)} are")
