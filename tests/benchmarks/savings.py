"""Predicted and measured run times of repaired programs: `python -m benchmarks.savings`.

Each program runs with a delay and without it. The run time without the delay is predicted from the
recording with the delay, by --what-if and by the sentence of the first finding. Both are compared
with the measured run time. Where the repair is another than usual work of all late ranks, of which
the sentence speaks, a third run has usual work. Work is sleeping, so that two processors suffice;
the ranks of MPICH poll while they wait, so use Open MPI. On a busy machine, --factor makes all work
longer. The exit code is 3 if too few predictions are right.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

from support.cause_judgement import stated_run_ns

import mpiprof
from benchmarks import jobs
from benchmarks.checks import Row, report_rows
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.diagnosis.what_if import parse_change, predict_run
from mpiprof.reports.conclusion import verdict_lines

SOURCE = Path(__file__).with_suffix(".c")
RANKS = 4
YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
TIMES = 3  # recordings of each program, of which the median counts
MAX_ERROR = 0.1
MIN_RIGHT = 0.9
# Program of SOURCE -> the changes of its repair.
CHANGES = {
    "collective": ("rank 2 = median",),
    "computing": ("rank 1 = median",),
    "unbalanced": ("site allreduce = balanced",),
    "growing": ("rank 1 = median",),
    "periodic": ("rank 2 = median",),
    "moving": tuple(f"rank {rank} = median" for rank in range(RANKS)),
    "node": ("rank 2 = median", "rank 3 = median"),
    "two_causes": ("rank 1 = median",),
    "hidden": ("rank 1 = median",),
    "communicators": ("rank 1 = median",),
    "bcast": ("rank 0 = median",),
    "reduce": ("rank 2 = median",),
    "iallreduce": ("rank 1 = median",),
    "halo": ("rank 2 = median",),
    "halo_alone": ("rank 2 = median",),
    "overlap": ("rank 1 = median",),
    "pipeline": ("rank 2 = median",),
    "bottlenecks": ("rank 2 = median",),
    "master": ("rank 1 = median",),
    "any_source": ("rank 1 = median",),
    "sendrecv": ("rank 1 = median",),
    "late_receiver": ("rank 1 = median",),
    "rendezvous": ("rank 1 = median",),
    "slack": ("rank 0 = median",),
    "sweep": ("rank 1 = median",),
}


# Their repair is another than usual work of all late ranks.
OTHER_REPAIR = ("unbalanced", "hidden")


@dataclass(frozen=True)
class Result:
    """Run times of a program in ns.

    faulty_ns, repaired_ns: measured with and without the delay. predicted_ns, stated_ns: without
    the delay, by --what-if and by the first finding (NaN if it states none). usual_ns: measured
    with usual work of all late ranks.
    """

    faulty_ns: float
    predicted_ns: float
    stated_ns: float
    repaired_ns: float
    usual_ns: float

    @property
    def errors(self) -> tuple[float, float]:
        """Return the errors of prediction and sentence, over the measured time."""
        return self.predicted_ns / self.repaired_ns - 1, self.stated_ns / self.usual_ns - 1

    def __str__(self) -> str:
        of_prediction, of_sentence = (
            "none" if math.isnan(error) else f"{100 * error:+.1f} %" for error in self.errors
        )
        times = f"{self.repaired_ns / 1e6:.0f} ms, {self.faulty_ns / 1e6:.0f} ms with the delay"
        if self.usual_ns != self.repaired_ns:
            times += f", {self.usual_ns / 1e6:.0f} ms with usual work"
        return f"{of_prediction}, sentence {of_sentence} ({times})"


def is_right(error: float) -> bool:
    """Return whether an error is small enough; NaN is not."""
    return abs(error) <= MAX_ERROR


def record(program: jobs.Program, words: list[str], folder: Path) -> mpiprof.Trace:
    """Run a program, and return its trace."""
    command = [*jobs.recording(folder, "-n", str(RANKS)), str(program.path), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | YIELDING)
    return mpiprof.open(folder)


def run_once(program: jobs.Program, name: str, factor: int) -> Result:
    """Run a program with and without its delay."""
    with tempfile.TemporaryDirectory(dir=".") as made:
        switches = "faulty", "repaired", "usual" if name in OTHER_REPAIR else "repaired"
        traces = {
            switch: record(program, [name, switch, str(factor)], Path(made) / switch)
            for switch in dict.fromkeys(switches)
        }
        faulty, repaired, usual = (traces[switch] for switch in switches)
        prediction = predict_run(faulty, list(map(parse_change, CHANGES[name])))
        lines = verdict_lines(faulty, make_verdict(faulty, faulty.findings()))
        stated_ns = stated_run_ns(" ".join(lines[1:2]))
        times = prediction.run_ns, prediction.predicted_ns, stated_ns
        return Result(*times, float(repaired.run_ns), float(usual.run_ns))


def summarise(results: Sequence[Result]) -> Result:
    """Return the medians of several runs of a program; a sentence must be there in most runs."""
    columns = {
        field.name: [getattr(one, field.name) for one in results] for field in fields(Result)
    }
    stated = [ns for ns in columns.pop("stated_ns") if not math.isnan(ns)]
    is_stated = 2 * len(stated) > len(results)
    times = {name: median(column) for name, column in columns.items()}
    return Result(stated_ns=median(stated) if is_stated else math.nan, **times)


def requirement_rows(results: Mapping[str, Result]) -> Iterator[Row]:
    """Yield the requirements for predictions and sentences of all programs."""
    asked = f"{MAX_ERROR:.0%} in {MIN_RIGHT:.0%}"
    of_predictions, of_sentences = zip(*(of.errors for of in results.values()), strict=True)
    for what, column in (
        ("predictions that are right", of_predictions),
        ("sentences that are right", of_sentences),
    ):
        right = sum(map(is_right, column))
        yield Row(what, asked, f"{right} of {len(column)}", right >= MIN_RIGHT * len(column))


def rows(names: list[str], times: int, factor: int) -> Iterator[Row]:
    """Run the programs several times, and yield their results and the requirements."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        program = jobs.compiled(SOURCE, Path(folder), "-g", "-rdynamic")
        for name in names:
            results[name] = summarise([run_once(program, name, factor) for _ in range(times)])
            yield Row(f"{name}: error of the run time", "", str(results[name]))
    yield from requirement_rows(results)


def command() -> int:
    """Run the programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, metavar="N")
    parser.add_argument("--factor", type=int, default=1, metavar="N", help="of all work")
    choices = ", ".join(CHANGES)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"all of {choices}")
    args = parser.parse_args()
    return report_rows(rows(args.programs or list(CHANGES), args.times, args.factor))


if __name__ == "__main__":
    sys.exit(command())
