"""Results of runs as files, so that an interrupted report continues where it ended.

A file is valid if the run, the choice of --quick, the version of mpiprof and the code of studies
and simulator are the same as when it was written.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import mpiprof
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.runs import Run
from mpiprof.errors import MpiprofError
from mpiprof.interface.output_files import write_text

RESULTS = "results"  # folder beside the reports, with a folder for each paper
CODE = ("bench", "model", "lib/libmpiprof-schedule.so")  # below the package


@dataclass(frozen=True)
class RunResult:
    """Tables of a run, its duration, why it failed, or "", and the study's notes."""

    rows: list[Row]
    seconds: float
    failure: str = ""
    notes: tuple[str, ...] = ()
    tables: dict[str, list[Row]] = field(default_factory=dict)  # besides `rows`, by name


@cache
def digest_code() -> str:
    """Return a hash of the code that results depend on."""
    hashed = hashlib.sha256(mpiprof.__version__.encode())
    for path in _code_files():
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]


def _code_files() -> Iterator[Path]:
    package = Path(mpiprof.__file__).parent
    for name in CODE:
        path = package / name
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path] * path.is_file()


def make_key(run: Run, quick: bool) -> str:
    """Return a text that is equal for runs with equal results."""
    settings = re.sub(r" at 0x\w+", "", repr(run))  # addresses of functions
    return f"{digest_code()} {'quick' if quick else 'full'} {settings}"


def result_path(folder: Path, name: str, quick: bool) -> Path:
    """Return the file of a run's result in a paper's folder."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return folder / f"{stem}{'-quick' if quick else ''}.json"


def load_result(path: Path, key: str) -> RunResult | None:
    """Return a result, or None if there is none for this key."""
    try:
        table = json.loads(path.read_text())
        if table["key"] != key:
            return None
        return _make_result(table)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def obtain_result(run: Run, quick: bool, path: Path, key: str) -> RunResult:
    """Return a run's result, and store it in a file unless the run fails."""
    began = time.monotonic()
    try:
        obtained = run.obtain(quick)
    except MpiprofError as error:
        return RunResult([], time.monotonic() - began, str(error))
    seconds = time.monotonic() - began
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {"key": key, "seconds": seconds, **vars(obtained)}, default=lambda number: number.item()
    )
    write_text(path, text)
    return _make_result(json.loads(text))


def _make_result(table: dict[str, Any]) -> RunResult:
    notes = tuple(table["notes"])
    return RunResult(table["rows"], table["seconds"], notes=notes, tables=table["tables"])
