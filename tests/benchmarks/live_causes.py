"""Sentences on causes of waiting in live programs: `python -m benchmarks.live_causes`.

Each program (live_programs.py) runs with a cause whose ranks, place, onset and reason are known,
and measures the time of its planted delay. The first sentences of the report must agree. Work is
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.cause_judgement import MAX_SAVING_ERROR, RIGHT, UNSURE, WRONG

import mpiprof
from benchmarks import jobs
from benchmarks.cause_sentences import judge_sentences
from benchmarks.checks import Row, report_rows
from benchmarks.live_programs import COLLECTIVES, MESSAGES, OBJECTS, PROGRAMS, LiveProgram
from benchmarks.planted_causes import MAX_WRONG, MIN_RIGHT, MIN_RIGHT_COSTS
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion
from mpiprof.reports.sentences import finding_text

YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
TIMEOUT_S = 300


@dataclass(frozen=True)
class Judgement:
    """A program and the report on it; cost_ratio: reported over true cost, None if unknown."""

    program: LiveProgram
    result: str
    faults: dict[str, str]
    cost_ratio: float | None = None
    sentence: str = ""
    findings: Sequence[str] = field(default=())


def record(program: LiveProgram, binary: Path, trace: Path) -> tuple[float, float]:
    """Run a program, and return the wall time and processor time of its planted delays in ns."""
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
        env=os.environ | YIELDING,
        cwd=trace.parent,
        timeout=TIMEOUT_S,
    )
    planted = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("planted ")]
    of_cause = [times for times in planted if int(times[0]) in program.must_name]
    return sum(float(of[1]) for of in of_cause), sum(float(of[2]) for of in of_cause)


def judge(program: LiveProgram, trace: mpiprof.Trace, planted: tuple[float, float]) -> Judgement:
    """Compare the report on a program with the truth."""
    findings = trace.findings()
    verdict = make_verdict(trace, findings)
    lines = conclusion.verdict_lines(trace, verdict)
    sentence, whole = " ".join(lines[1:2]), [finding_text(trace, finding) for finding in findings]
    wall_ns, processor_ns = planted
    reasons = program.reasons(processor_ns / max(wall_ns, 1.0))
    result, faults = judge_sentences(program, sentence, reasons)
    ratio = None
    if verdict.worst is not None and result != UNSURE and program.at_once:
        ratio = verdict.worst.cost_ns / program.cost_ns(wall_ns)
    return Judgement(program, result, faults, ratio, sentence, [*lines, *whole])


def run_programs(
    programs: Sequence[LiveProgram], folder: Path, verbose: bool
) -> Iterator[Judgement]:
    """Run programs with their traces in a folder, and yield a judgement of each."""
    sources = {one.source for one in programs} & {COLLECTIVES, MESSAGES}
    flags = ("-g", "-O1", "-fno-inline", "-rdynamic", "-pthread")
    binaries = {source: jobs.compiled(source, folder, *flags).path for source in sources}
    for program in programs:
        trace = folder / f"{program.name}-{program.ranks}"
        try:
            planted = record(program, binaries.get(program.source, Path()), trace)
            judgement = judge(program, mpiprof.open(trace), planted)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            judgement = Judgement(program, UNSURE, {"run": f"failed: {error}"})
        explain(judgement, verbose)
        yield judgement


def explain(judgement: Judgement, verbose: bool) -> None:
    """Print the sentences that are not right, or all sentences."""
    ratio = judgement.cost_ratio
    is_exact = ratio is None or abs(ratio - 1) <= MAX_SAVING_ERROR
    if verbose:
        print(f"\n== {judgement.program}", *judgement.findings, sep="\n  ", file=sys.stderr)
    if judgement.result != RIGHT or not is_exact:
        parts = "; ".join(f"{part}: {fault}" for part, fault in judgement.faults.items())
        cost = "" if ratio is None else f" cost x {ratio:.2f}"
        head = f"  {judgement.program}: {judgement.result} {parts}{cost}"
        print(f"{head}\n    {judgement.sentence}", file=sys.stderr)


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
    ratios = [one.cost_ratio for one in judgements if one.cost_ratio is not None]
    exact = sum(abs(ratio - 1) <= MAX_SAVING_ERROR for ratio in ratios)
    is_met = exact >= MIN_RIGHT_COSTS * len(ratios)
    yield Row("costs within 10 %", f">= {MIN_RIGHT_COSTS:.0%}", f"{exact} of {len(ratios)}", is_met)


def rows(programs: Sequence[LiveProgram], folder: Path, verbose: bool) -> Iterator[Row]:
    """Run programs, and yield a row for each program and requirement."""
    judgements = []
    for judgement in run_programs(programs, folder, verbose):
        judgements.append(judgement)
        ratio = judgement.cost_ratio
        cost = "" if ratio is None else f", cost x {ratio:.2f}"
        yield Row(str(judgement.program), "", f"{judgement.result}{cost}")
    yield from requirement_rows(judgements)


def command() -> int:
    """Run the programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print all sentences")
    names = sorted({program.name for program in PROGRAMS})
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of the traces")
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
