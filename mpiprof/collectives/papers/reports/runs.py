"""Runs that supply a report's rows: simulated studies, computations, and studies on ranks.

Their results are files, so that an interrupted report continues where it ended. A file is valid if
the run, the choice of --quick, the version of mpiprof and the code of studies and simulator are the
same as when it was written.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import mpiprof
from mpiprof.collectives.machine import DEFAULT, Machine
from mpiprof.collectives.papers.harness import runner, simulated_cases
from mpiprof.collectives.papers.harness.case import Case, Options
from mpiprof.collectives.papers.harness.conditions import describe_machine
from mpiprof.collectives.papers.harness.study import Row, Setup
from mpiprof.collectives.papers.studies import import_study
from mpiprof.errors import MpiprofError
from mpiprof.interface.installation import library_folder
from mpiprof.interface.output_files import write_text
from mpiprof.interface.progress import Progress, show_work
from mpiprof.launch.mpiexec import find_failure
from mpiprof.launch.program import verb_command

RESULTS = "results"  # folder beside the reports, with a folder for each paper
CODE = ("account", "collectives")  # folders below the package


@dataclass(frozen=True)
class Obtained:
    """Rows of a run, notes of the study about them, and the study's further tables by name."""

    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)


@dataclass(frozen=True)
class Simulation:
    """A simulated study; a quick run replaces `options` by `quick`, if given."""

    study: str
    processes: int
    options: Options = field(default_factory=Options)
    quick: Options | None = None
    machine: Machine = DEFAULT
    algorithms: tuple[str, ...] = ()  # all if empty
    note: str = ""  # source of the message times
    labels: tuple[tuple[str, Any], ...] = ()  # only cases with these labels

    def method(self, quick: bool) -> str:
        """Return how the rows are obtained."""
        del quick
        times = describe_machine(self.machine, self.options.per_node)
        return f"{self.processes} processes, {times}" + (f" ({self.note})" if self.note else "")

    def _prepare(self, quick: bool) -> tuple[Setup, list[Case]]:
        options = self.quick if quick and self.quick is not None else self.options
        setup = runner.make_simulated_setup(self.study, options, self.processes, self.machine)
        cases: list[Case] = import_study(self.study).make_cases(setup)
        if self.algorithms:
            cases = [case for case in cases if case.labels["algorithm"] in self.algorithms]
        labels = dict(self.labels).items()
        return setup, [case for case in cases if labels <= case.labels.items()]

    def estimate_s(self, quick: bool) -> float:
        """Return the approximate duration in s."""
        setup, cases = self._prepare(quick)
        return simulated_cases.estimate_seconds(cases, setup)

    def obtain(self, quick: bool) -> Obtained:
        """Return the rows of the study's report, and its notes of one line, which are no tables."""
        setup, cases = self._prepare(quick)
        progress = Progress(len(cases))
        results = simulated_cases.simulate_cases(cases, setup, progress.advance)
        progress.erase()
        report = import_study(self.study).make_report(results, setup)
        return Obtained(list(report.rows), [note for note in report.notes if "\n" not in note])


@dataclass(frozen=True)
class Computation:
    """Rows that a function computes; its argument is whether the run is quick."""

    compute: Callable[[bool], list[Row]]
    description: str
    seconds: float = 1.0
    quick_seconds: float = 1.0

    def method(self, quick: bool) -> str:
        """Return how the rows are obtained."""
        del quick
        return self.description

    def estimate_s(self, quick: bool) -> float:
        """Return the approximate duration in s."""
        return self.quick_seconds if quick else self.seconds

    def obtain(self, quick: bool) -> Obtained:
        """Return the rows."""
        return Obtained(self.compute(quick))


@dataclass(frozen=True)
class Measurement:
    """A study on ranks: words after `bench`, and their replacement in a quick run, if any."""

    words: tuple[str, ...]
    seconds: float
    quick: tuple[str, ...] = ()
    quick_seconds: float = 0.0
    alternative: tuple[str, ...] = ()  # in place of a quick run that fails, such as without root

    def _choose_words(self, quick: bool) -> tuple[str, ...]:
        return self.quick if quick else self.words

    def method(self, quick: bool) -> str:
        """Return how the rows are obtained."""
        return f"measured by `bench {' '.join(self._choose_words(quick) or self.words)}`"

    def estimate_s(self, quick: bool) -> float:
        """Return the approximate duration in s."""
        return self.quick_seconds if quick else self.seconds

    def obtain(self, quick: bool) -> Obtained:
        """Return the study's tables and notes; raises MpiprofError if the study fails."""
        words = self._choose_words(quick)
        if not words:
            raise MpiprofError("a measurement that --quick leaves out")
        try:
            return _measure(words)
        except MpiprofError as error:
            if not quick or not self.alternative:
                raise
            obtained = _measure(self.alternative)
            note = f"{error}: measured by `bench {' '.join(self.alternative)}`"
            return replace(obtained, notes=[note, *obtained.notes])


def _measure(words: Sequence[str]) -> Obtained:
    """Run a study, and return its tables and notes; raises MpiprofError if the study fails."""
    with tempfile.TemporaryDirectory(prefix="mpiprof-bench-") as folder:
        output = Path(folder, "result")
        command = verb_command("bench", *words, "-o", str(output))
        with show_work(f"bench {words[0]}"):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = find_reason(done.stderr) or f"exit code {done.returncode}"
            raise MpiprofError(f"`bench {' '.join(words)}` failed: {reason}")
        rows, notes = _read_rows(output.with_suffix(".csv")), find_notes(done.stdout)
        further = sorted(output.parent.glob(f"{output.name}-*.csv"))
        tables = {p.stem.removeprefix(f"{output.name}-"): _read_rows(p) for p in further}
        return Obtained(rows, notes, tables)


def find_reason(errors: str) -> str:
    """Return the line of mpiprof's own message, else the line that states the cause, or ""."""
    lines = [line.strip() for line in errors.replace("\0", "").splitlines()]
    messages = [line for line in lines if line.startswith("mpiprof: ")]
    return messages[-1] if messages else find_failure(errors)


def find_notes(output: str) -> list[str]:
    """Return the conditions of a study: the output before its table, without the duration."""
    head = output.partition("\n\n")[0].splitlines()
    return [line for line in head if not line.startswith("This will take")]


Run = Simulation | Computation | Measurement


def _read_rows(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {name: parse_number(text) for name, text in row.items()} for row in csv.DictReader(file)
        ]


def parse_number(text: str) -> int | float | str:
    """Return a cell of a table as a number if it is one, else as text."""
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text


# ---- stored results


@dataclass(frozen=True)
class RunResult:
    """Tables of a run, its duration, why it failed, or "", and the study's notes."""

    rows: list[Row]
    seconds: float
    failure: str = ""
    notes: tuple[str, ...] = ()
    tables: dict[str, list[Row]] = field(default_factory=dict)  # besides `rows`, by name


def list_code() -> list[Path]:
    """Return the files of the code that results depend on."""
    folders = [Path(mpiprof.__file__).parent / name for name in CODE]
    library = library_folder() / "libmpiprof-schedule.so"
    return [library, *(file for folder in folders for file in sorted(folder.rglob("*.py")))]


@cache
def digest_code() -> str:
    """Return a hash of the code that results depend on."""
    hashed = hashlib.sha256(mpiprof.__version__.encode())
    for file in list_code():
        hashed.update(file.read_bytes())
    return hashed.hexdigest()[:16]


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
        return _make_result(table) if table["key"] == key else None
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
    table = {"key": key, "seconds": seconds, **vars(obtained)}
    text = json.dumps(table, default=lambda number: number.item())
    write_text(path, text)
    return _make_result(json.loads(text))


def _make_result(table: dict[str, Any]) -> RunResult:
    notes = tuple(table["notes"])
    return RunResult(table["rows"], table["seconds"], notes=notes, tables=table["tables"])
