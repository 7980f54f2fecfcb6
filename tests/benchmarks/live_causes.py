"""Sentences on causes of waiting in live programs: `python -m benchmarks.live_causes`.

Each program (live_programs.py) runs with a cause whose ranks, place, onset and reason are known,
and measures the time of its planted delay. The first sentences of the report must agree. Then it
runs without the delay, and takes the time that the sentence and --what-if must state. Work is
mostly sleeping, so that two processors suffice for many ranks; the ranks of MPICH poll while they
wait, so use Open MPI. The exit code is 3 if a requirement is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from support.cause_judgement import RIGHT, UNSURE, WRONG, stated_run_ns

import mpiprof
from benchmarks import jobs
from benchmarks.cause_sentences import judge_sentences
from benchmarks.checks import Row, report_rows
from benchmarks.live_programs import COLLECTIVES, MESSAGES, OBJECTS, PROGRAMS, LiveProgram
from benchmarks.planted_causes import MAX_WRONG, MIN_RIGHT, MIN_RIGHT_COSTS, is_exact
from mpiprof.causes.findings import make_verdict
from mpiprof.causes.run_steps import Steps
from mpiprof.causes.what_if import parse_change, predict_run
from mpiprof.reports.words import conclusion
from mpiprof.reports.words.finding_sentences import finding_text

YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
REPAIRED = {"LIVE_REPAIRED": "1"}
COST, STATED, PREDICTED = "cost", "run time of the sentence", "run time of --what-if"
TIMEOUT_S = 300
MAX_ROUNDED = 0.005  # of a time with three digits


@dataclass(frozen=True)
class Judgement:
    """A program and the report on it.

    ratios: reported over true cost, and run time without the delay by the sentence and by --what-if
    over the measured one; NaN if the sentence states none. Without a truth there is no ratio.
    """

    program: LiveProgram
    result: str
    faults: dict[str, str]
    ratios: Mapping[str, float] = field(default_factory=dict)
    sentence: str = ""
    findings: Sequence[str] = field(default=())


def record(
    program: LiveProgram, binary: Path, trace: Path, variables: Mapping[str, str] = YIELDING
) -> tuple[float, float]:
    """Run a program, and return the wall time and processor time of its planted delays in ns.

    A trace that is there from an earlier call is used again.
    """
    stated = trace.with_suffix(".planted")
    if not stated.exists():
        stated.write_text(run_recorded(program, binary, trace, variables))
    lines = stated.read_text().splitlines()
    planted = [line.split()[1:] for line in lines if line.startswith("planted ")]
    of_cause = [times for times in planted if int(times[0]) in program.must_name]
    return sum(float(times[1]) for times in of_cause), sum(float(times[2]) for times in of_cause)


def run_recorded(
    program: LiveProgram, binary: Path, trace: Path, variables: Mapping[str, str]
) -> str:
    """Record a program, and return its output."""
    command = jobs.recording(trace, "--yes", "-n", str(program.ranks))
    if program.source == OBJECTS:
        command += [sys.executable, str(OBJECTS), program.name, str(program.steps)]
    else:
        command += [str(binary), program.name, str(program.steps), str(program.factor)]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
        cwd=trace.parent,
        timeout=TIMEOUT_S,
    )
    return done.stdout


def judge(
    program: LiveProgram,
    trace: mpiprof.Trace,
    planted: tuple[float, float],
    repaired: mpiprof.Trace | None,
) -> Judgement:
    """Compare the report on a program with the truth; repaired: the program without its delay."""
    findings = trace.findings()
    verdict = make_verdict(trace, findings)
    lines = conclusion.verdict_lines(trace, verdict)
    sentence = " ".join(lines[1:2])
    texts = [finding_text(trace, finding) for finding in findings]
    wall_ns, processor_ns = planted
    reasons = program.reasons(processor_ns / max(wall_ns, 1.0))
    result, faults = judge_sentences(program, sentence, reasons, partial(find_step, trace))
    ratios = {}
    if verdict.worst is not None and result != UNSURE and program.at_once:
        ratios[COST] = verdict.worst.cost_ns / program.cost_ns(wall_ns)
    if repaired is not None:
        if result != UNSURE:
            ratios[STATED] = stated_run_ns(sentence) / float(repaired.run_ns)
        if program.changes:
            prediction = predict_run(trace, list(map(parse_change, program.changes)))
            ratios[PREDICTED] = prediction.predicted_ns / float(repaired.run_ns)
    return Judgement(program, result, faults, ratios, sentence, [*lines, *texts])


def find_step(trace: mpiprof.Trace, time_ns: float) -> int:
    """Return the step of a run at a time in ns after its start; 0 if its ranks do not all meet.

    The time has three digits, and work begins right after the step before.
    """
    steps: Steps | None = trace.derive("steps")
    if steps is None:
        return 0
    counts = np.bincount(steps.callsite)
    ends_ns = steps.edges_ns[1:][steps.callsite == counts.argmax()]
    return int(np.searchsorted(ends_ns, trace.run_start_ns + time_ns * (1 + MAX_ROUNDED)))


def run_programs(
    programs: Sequence[LiveProgram], folder: Path, verbose: bool
) -> Iterator[Judgement]:
    """Run programs with their traces in a folder, and yield a judgement of each."""
    sources = {one.source for one in programs} & {COLLECTIVES, MESSAGES}
    flags = ("-g", "-O1", "-fno-inline", "-rdynamic", "-pthread")
    binaries = {source: jobs.compiled(source, folder, *flags).path for source in sources}
    for program in programs:
        trace, repaired = folder / f"{program.name}-{program.ranks}", None
        try:
            binary = binaries.get(program.source, Path())
            planted = record(program, binary, trace)
            if program.has_repair:
                without = trace.with_name(f"{trace.name}-repaired")
                record(program, binary, without, YIELDING | REPAIRED)
                repaired = mpiprof.open(without)
            judgement = judge(program, mpiprof.open(trace), planted, repaired)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            judgement = Judgement(program, UNSURE, {"run": f"failed: {error}"})
        explain(judgement, verbose)
        yield judgement


def explain(judgement: Judgement, verbose: bool) -> None:
    """Print the sentences that are not right, or all sentences."""
    if verbose:
        print(f"\n== {judgement.program}", *judgement.findings, sep="\n  ", file=sys.stderr)
    if judgement.result != RIGHT or not all(map(is_exact, judgement.ratios.values())):
        parts = "; ".join(f"{part}: {fault}" for part, fault in judgement.faults.items())
        head = f"  {judgement.program}: {judgement.result} {parts}{format_ratios(judgement)}"
        print(f"{head}\n    {judgement.sentence}", file=sys.stderr)


def format_ratios(judgement: Judgement) -> str:
    """Return the ratios of a judgement as ", cost x 0.97, run time x 1.02"."""
    return "".join(f", {name} x {ratio:.2f}" for name, ratio in judgement.ratios.items())


def requirement_rows(judgements: Sequence[Judgement]) -> Iterator[Row]:
    """Yield the requirements for all programs."""
    count = len(judgements)
    results = Counter(judgement.result for judgement in judgements)
    measured = ", ".join(f"{results[result]} {result}" for result in (RIGHT, UNSURE, WRONG))
    is_met = results[RIGHT] >= MIN_RIGHT * count and results[WRONG] <= MAX_WRONG * count
    yield Row("first sentence", f">= {MIN_RIGHT:.0%}, <= {MAX_WRONG:.0%}", measured, is_met)
    for part in ("ranks", "place", "onset", "reason"):
        right = sum(part not in judgement.faults for judgement in judgements)
        yield Row(f"{part} named correctly", "", f"{right} of {count}")
    for name in (COST, STATED, PREDICTED):
        ratios = [judgement.ratios[name] for judgement in judgements if name in judgement.ratios]
        exact = sum(map(is_exact, ratios))
        is_met = exact >= MIN_RIGHT_COSTS * len(ratios)
        asked = f">= {MIN_RIGHT_COSTS:.0%}"
        yield Row(f"{name} within 10 %", asked, f"{exact} of {len(ratios)}", is_met)


def rows(programs: Sequence[LiveProgram], folder: Path, verbose: bool) -> Iterator[Row]:
    """Run programs, and yield a row for each program and requirement."""
    judgements = []
    for judgement in run_programs(programs, folder, verbose):
        judgements.append(judgement)
        measured = f"{judgement.result}{format_ratios(judgement)}"
        yield Row(str(judgement.program), "", measured)
    yield from requirement_rows(judgements)


def command() -> int:
    """Run the programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print all sentences")
    names = sorted({program.name for program in PROGRAMS})
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of kept traces")
    parser.add_argument("--ranks", type=int, metavar="N", help="only programs with N ranks")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"all of {', '.join(names)}")
    args = parser.parse_args()
    if unknown := set(args.programs) - set(names):
        parser.error(f"unknown program {min(unknown)}; known are {', '.join(names)}")
    chosen = [
        program
        for program in PROGRAMS
        if (not args.programs or program.name in args.programs)
        and args.ranks in (None, program.ranks)
    ]
    with tempfile.TemporaryDirectory(prefix="mpiprof-live-", dir=".") as made:
        folder = args.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        return report_rows(rows(chosen, folder.absolute(), args.verbose))


if __name__ == "__main__":
    sys.exit(command())
