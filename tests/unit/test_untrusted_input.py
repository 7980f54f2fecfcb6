"""Files and JSON that somebody else may have written are read by two modules only.

A reader that opens such a file itself could follow a link, block on a pipe, or pass on texts that a
terminal executes. The readers of other files are listed here, each with its kind of files.
"""

from __future__ import annotations

import ast
from pathlib import Path

from support import ROOT

READERS = {"mpiprof/interface/untrusted_files.py", "mpiprof/interface/untrusted_text.py"}
OPENING = {"read_text", "read_bytes", "loads", "load", "fromfile", "memmap", "readlines"}
# Folders that read no traces of others, and modules that read files of these kinds.
FOLDERS = ("mpiprof/collectives/papers/", "mpiprof/core/generator/")
OTHER_FILES = {
    "of the system": {
        *("mpiprof/trace/memory_limit.py", "mpiprof/hang/processes.py", "mpiprof/launch/job.py"),
        *("mpiprof/hang/node_processes.py", "mpiprof/launch/ranks.py", "mpiprof/interface/elf.py"),
        *("mpiprof/commands/doctor.py", "mpiprof/collectives/tune/export_rules/mpich.py"),
    },
    "of the installation": {
        "mpiprof/interface/installation.py",
        *("mpiprof/reports/overview/__init__.py", "mpiprof/reports/html_report/page.py"),
        *(
            "mpiprof/interface/tokens.py",
            "dashboard/app.py",
            "mpiprof/collectives/tune/export_rules/targets.py",
        ),
    },
    "of the program": {
        *(
            "mpiprof/collectives/tune/plan_check.py",
            "mpiprof/launch/commit.py",
            "mpiprof/launch/program.py",
        )
    },
    "of this process and its children": {
        *(
            "mpiprof/collectives/tune/replay/jobs.py",
            "mpiprof/launch/library.py",
            "mpiprof/commands/bench.py",
        ),
        *("dashboard/timeline/process.py", "dashboard/timeline/scratch.py"),
    },
    "none; JSON of the address": {"dashboard/pages/callsites.py"},
}


def list_reads(path: Path) -> list[str]:
    """Return the calls in a module that open or parse files."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = [a.value for a in node.args if isinstance(a, ast.Constant)]
            is_binary = node.func.attr == "open" and "rb" in words
            if node.func.attr in OPENING or is_binary:
                found.append(f"{node.func.attr} in line {node.lineno}")
    return found


def test_only_two_modules_read_what_others_may_have_written() -> None:
    known = READERS.union(*OTHER_FILES.values())
    reads = {}
    for path in [*ROOT.glob("mpiprof/**/*.py"), *ROOT.glob("dashboard/**/*.py")]:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(FOLDERS) and name not in known and (found := list_reads(path)):
            reads[name] = found
    assert reads == {}
