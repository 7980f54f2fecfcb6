"""Call sites of Python programs, whatever their other threads do, on every available Python."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest
from support import PROGRAMS, raw_trace
from support.jobs import run_mpi
from support.mpis import Mpi

PROGRAM = PROGRAMS / "callsite_python.py"
LIBRARY = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
ROUNDS = 8
_NATIVE = ("a native site", 0, "")


@lru_cache
def pythons() -> dict[str, str]:
    """Return the Pythons on this machine by version, from PATH and from pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named = [shutil.which(f"python{version}") for version in SUPPORTED]
    places = [sys.executable, *named, *map(str, root.glob("versions/*/bin/python3"))]
    found: dict[str, str] = {}
    for place in filter(None, places):
        requested = subprocess.run(
            [place, "-c", "import sys, ctypes; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if requested.stdout.strip() in SUPPORTED:
            found.setdefault(requested.stdout.strip(), place)
    return found


def marked_lines() -> Counter[tuple[str, int, str]]:
    """Return the program's call sites, and the number of calls at each."""
    found: Counter[tuple[str, int, str]] = Counter()
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1):
        mark = re.search(r"MPI_Barrier\(world\)\)?  # (\S+)$", line)
        if mark:
            often = {"<module>": 1, "steps": 2 * ROUNDS}.get(mark[1], ROUNDS)
            found[str(PROGRAM), number, mark[1]] = often
    for file, number in itertools.product((0, 1), (1, 301)):
        found[f"/made/{file}.py", number, "<module>"] = ROUNDS // 4
    return found


def recorded(mpi: Mpi, python: str, trace: Path, beside: str, *options: str) -> raw_trace.Raw:
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace), *options]
    words += ["--mpi", mpi.name, "--", python, str(PROGRAM)]
    library = mpi.bin.parent / "lib" / LIBRARY[mpi.name]
    run_mpi(mpi, 1, [*words, str(library), beside], check=True)
    return raw_trace.read(trace)


def sites_of(trace: raw_trace.Raw) -> Counter[tuple[str, int, str]]:
    frames = [r.frames[0] for r in trace.of(0)]
    return Counter(
        (f["file"], f["line"], f["function"]) if "file" in f else _NATIVE for f in frames
    )


@pytest.mark.parametrize("beside", ["none", "sleeping", "busy", "all"])
def test_every_call_has_its_line(beside: str, mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: generators, finalisers, callbacks and generated code, beside other threads."""
    assert "{}.{}".format(*sys.version_info) in pythons()
    for version, python in pythons().items():
        trace = recorded(mpich, python, tmp_path / version, beside)
        assert sites_of(trace) == marked_lines(), version
        reported = sum("frames" in line for line in trace.lines)
        assert reported == len(marked_lines()), version  # no call site twice


def test_every_call_has_its_line_under_open_mpi(openmpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank, beside all varieties of threads."""
    trace = recorded(openmpi, str(openmpi.python), tmp_path / "trace", "all")
    assert sites_of(trace) == marked_lines()
