"""Specifications of causes in tests/causes: `python -m support.cause_specs [--renew] [FILE...]`.

A specification is a section of a Markdown file: a block of YAML with a simulated program, the
planted cause and the expected report, and after it the report of today on its first case. The
command prints a judgement of this case of each; --renew also writes the reports into the files, for
a review of the difference. The exit code is 1 if a report differs from its file, or its judgement
from the mark `today`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mpiprof
from mpiprof.causes.finding import MIN_CERTAINTY
from mpiprof.interface.format_units import format_time
from support import spec_files
from support.cause_judgement import INEXACT, RIGHT, UNSURE, WRONG, Report, judge, read_report
from support.program import Program
from support.spec_files import BLOCK, SECTION, Case, Spec, read_specs

WIDTH = 100


@dataclass(frozen=True)
class Truth:
    """Run time of a program, and the run time and waiting that the planted cause costs, in ns."""

    run_ns: int
    saved_ns: int
    wait_ns: int


@dataclass(frozen=True)
class Result:
    """The report on a program of a specification, and its judgement.

    states_saving: whether the report must state the saved time. trace: of the program.
    """

    spec: Spec
    truth: Truth
    report: Report
    judgement: str
    states_saving: bool = True
    trace: mpiprof.Trace | None = None

    @property
    def is_as_marked(self) -> bool:
        """Return whether the judgement is of the class of the mark `today`."""
        return name_class(self.judgement) == name_class(self.spec.today or RIGHT)

    @property
    def saved_ratio(self) -> float | None:
        """Return the reported over the true saved run time; None if none must be stated."""
        return self._divide(self.truth.saved_ns, "saved_ns")

    @property
    def wait_ratio(self) -> float | None:
        """Return the reported over the true saved waiting; None as above."""
        return self._divide(self.truth.wait_ns, "cost_ns")

    def _divide(self, true_ns: int, name: str) -> float | None:
        finding = self.report.finding
        is_stated = name_class(self.judgement) in (RIGHT, INEXACT) and self.states_saving
        return getattr(finding, name) / max(true_ns, 1) if is_stated and finding else None

    @property
    def recorded(self) -> str:
        """Return the text for the file."""
        sentences = [
            textwrap.fill(
                sentence,
                WIDTH,
                initial_indent="> ",
                subsequent_indent="> ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            for sentence in self.report.sentences
        ]
        return "\n>\n".join(sentences) + "\n" + self._make_table()

    def _make_table(self) -> str:
        if not self.spec.has_cause:
            return ""
        finding, truth = self.report.finding, self.truth
        run = f"{format_time(truth.saved_ns)} of {format_time(truth.run_ns)}"
        report = ("none", "none")
        is_sure = finding is not None and finding.certainty >= MIN_CERTAINTY
        if finding is not None and is_sure and (finding.ranks or finding.saved_ns > 0):
            report = format_time(finding.saved_ns), format_time(finding.waiting_ns)
        rows = [
            "| without the cause | truth | report |",
            "|---|---|---|",
            f"| run time saved | {run} | {report[0]} |",
            f"| waiting saved | {format_time(truth.wait_ns)} | {report[1]} |",
        ]
        return "\n" + "\n".join(rows) + "\n"


def run_case(spec: Spec, case: Case, folder: Path, **options: Any) -> Result:
    """Write the trace of a case into a folder, and judge the report; options: of the program."""
    program = case.build(**case.planted, **options)
    trace = mpiprof.open(program.write(folder))
    without = end(case.build(**options))
    repaired = end(case.build(**case.repaired, **options)) if case.repaired else without
    truth = measure_truth(program, without, repaired)
    report = read_report(trace)
    judgement = judge(case.expected, report, truth.saved_ns if case.planted else None)
    return Result(spec, truth, report, judgement, case.expected.saving, trace)


def run_spec(spec: Spec, folder: Path) -> Result:
    """Judge the report on the first case of a specification, whose text is in its file."""
    return run_case(spec, spec.make_case(), folder)


def end(program: Program) -> Program:
    """Return a program that has ended as programs with a trace do."""
    program.collective("finalize", "app.py:9:main")
    return program


def measure_truth(program: Program, without: Program, repaired: Program) -> Truth:
    """Return the costs of a cause from finished programs: with it, without it, and repaired."""
    run_ns, less_ns = (
        int(np.ptp([one.synthetic.started_ns, one.now_ns.max()])) for one in (program, repaired)
    )
    wait_ns, least_ns = (int(one.make_truth()["wait_ns"].sum()) for one in (program, without))
    return Truth(run_ns, run_ns - less_ns, wait_ns - least_ns)


def renew(results: Sequence[Result]) -> None:
    """Write the reports into the files."""
    for file in dict.fromkeys(result.spec.file for result in results):
        path = spec_files.FOLDER / f"{file}.md"
        by_title = {
            result.spec.title: result.recorded for result in results if result.spec.file == file
        }
        text = SECTION.sub(partial(_renew_section, recorded=by_title), path.read_text())
        path.write_text(text.rstrip("\n") + "\n")


def _renew_section(section: re.Match[str], recorded: Mapping[str, str]) -> str:
    block = BLOCK.search(section["text"])
    if block is None or section["title"] not in recorded:
        return section[0]
    head = section["text"][: block.end()]
    return f"## {section['title']}\n{head}\n{recorded[section['title']]}\n"


def name_class(judgement: str) -> str:
    """Return the class of a judgement without its fault."""
    return judgement.partition(":")[0]


def make_summary(results: Sequence[Result]) -> str:
    """Return the numbers of right and wrong reports."""
    counts = Counter(name_class(result.judgement) for result in results)
    right = counts[RIGHT] + counts[INEXACT]
    planted = [result for result in results if result.spec.has_cause]
    exact = sum(result.judgement == RIGHT for result in planted)
    first = f"{right} of {len(results)} sentences right, {counts[WRONG]} wrong"
    return f"{first}, {counts[UNSURE]} unsure; {exact} of {len(planted)} right with exact saving"


def command() -> int:
    """Judge the specifications, and print or renew them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renew", action="store_true", help="write the reports into the files")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="all by default")
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="mpiprof-causes-") as made:
        for number, spec in enumerate(read_specs(args.files)):
            result = run_spec(spec, Path(made) / str(number))
            changed = "" if result.is_as_marked else f" (marked: {spec.today or RIGHT})"
            print(f"{spec}: {result.judgement}{changed}")
            results.append(result)
    print(make_summary(results))
    if args.renew:
        renew(results)
    differing = [one for one in results if one.recorded.strip() != one.spec.recorded]
    return int(not all(one.is_as_marked for one in results) or bool(differing and not args.renew))


if __name__ == "__main__":
    sys.exit(command())
