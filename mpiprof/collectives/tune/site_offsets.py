"""Locates source lines in a compiled program, so that the recorder can match sites by offset."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mpiprof.collectives.tune.plan import Plan, collect_remarks
from mpiprof.collectives.tune.rules import is_named
from mpiprof.errors import UsageError

ROW_PATTERN = re.compile(r"(\S.*?)\s+(\d+|-)\s+0x([0-9a-f]+)\b")
SEGMENT_PATTERN = re.compile(r"\s*LOAD off\s+\S+\s+vaddr 0x([0-9a-f]+)")


def locate_sites(plan: Plan, program: Path, *, strict: bool = True) -> Plan:
    """Return a plan with the code offsets of its call sites in a program; raises UsageError."""
    sites = [site for site in plan.sites if not site.partition(":")[0].endswith((".py", ".pyw"))]
    if not sites:
        return plan
    offsets: dict[str, list[tuple[int, int]]] = {site: [] for site in sites}
    lines: dict[str, set[int]] = {site: set() for site in sites}
    files: set[str] = set()
    for file, line, first, last in _read_code_rows(program):
        files.add(Path(file).name)
        for site in sites:
            path, _, number = site.rpartition(":")
            # A compiler's file name may have more or fewer leading folders than the user's.
            if is_named(path, file) or is_named(file, path):
                lines[site].add(line)
                if line == int(number):
                    offsets[site].append((first, last))
    remarks = list(plan.remarks)
    rules = []
    for rule in plan.rules:
        site = rule.site or ""
        if site not in offsets:
            rules.append(rule)
        elif offsets[site]:
            rules.append(replace(rule, ranges=tuple(offsets[site])))
        else:
            # If not strict, a file's entries for unknown lines become remarks.
            with collect_remarks(remarks if rule.file and not strict else None):
                text = _missing_site_error(site, program, lines[site], files)
                raise UsageError(f"{rule.source_text}{f': {site}' if rule.file else ''}: {text}")
    return replace(plan, rules=tuple(rules), remarks=tuple(remarks))


def _missing_site_error(site: str, program: Path, lines: set[int], files: set[str]) -> str:
    if not files:
        return f"{program} has no line numbers: compile it with -g"
    path, _, number = site.rpartition(":")
    if not lines:
        examples = ", ".join(sorted(files)[:5])
        return f"{program} contains no code of {path}; its sources are {examples}"
    near = sorted(sorted(lines, key=lambda n: abs(n - int(number)))[:3])
    return f"{program} has no code in that line; the nearest lines: {', '.join(map(str, near))}"


def _read_code_rows(program: Path) -> Iterator[tuple[str, int, int, int]]:
    """Yield file, line, first and last offset of each run of code in a program."""
    tool = shutil.which("objdump")
    if tool is None:
        option = "--switch FILE:LINE in a compiled program"
        raise UsageError(f"{option} requires objdump: install binutils")
    base: int | None = None
    file, before = "", None
    with subprocess.Popen(
        [tool, "-w", "-p", "--dwarf=decodedline", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for text in process.stdout:
            segment = SEGMENT_PATTERN.match(text) if base is None else None
            if segment:
                base = int(segment[1], 16) & ~0xFFF
                continue
            row = ROW_PATTERN.match(text)
            if row is None:
                if re.search(r":(\[\+\+\])?$", text.rstrip()):
                    file = re.sub(r":(\[\+\+\])?$", "", text.rstrip().removeprefix("CU: "))
                continue
            at = int(row[3], 16) - (base or 0)
            if before is not None and at > before[2]:
                yield *before, at - 1
            before = None if row[2] == "-" else (file or row[1], int(row[2]), at)
