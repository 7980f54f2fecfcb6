"""Predicted and measured run times of repaired programs: `python -m benchmarks.savings`.

Each program runs with a delay and without it. The run time without the delay is predicted from the
recording with the delay, and compared with the measured one. Work is sleeping, so that two
processors suffice; the ranks of MPICH poll while they wait, so use Open MPI. On a busy machine,
--factor makes all work longer. The exit code is 3 if too few predictions are right.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import mpiprof
from benchmarks import jobs
from benchmarks.checks import Row, printed
from mpiprof.diagnosis.what_if import parse_change, predict_run

SOURCE = Path(__file__).with_suffix(".c")
RANKS = 4
YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
TIMES = 3  # recordings of each program, of which the median counts
MAX_ERROR = 0.1
MIN_RIGHT = 0.9
THRESHOLD_MISSED = 3
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


@dataclass(frozen=True)
class Result:
    """Run times of a program in ns: with the delay, predicted without it, measured without it."""

    faulty_ns: float
    predicted_ns: float
    repaired_ns: float

    @property
    def error(self) -> float:
        """Return the error of the prediction, over the measured time."""
        return self.predicted_ns / self.repaired_ns - 1

    def __str__(self) -> str:
        faulty, predicted, repaired = (
            f"{ns / 1e6:.0f}" for ns in (self.faulty_ns, self.predicted_ns, self.repaired_ns)
        )
        return f"{repaired} ms, predicted {predicted} from {faulty} ({self.error:+.1%})"


def record(program: jobs.Program, words: list[str], folder: Path) -> mpiprof.Trace:
    """Run a program, and return its trace."""
    command = [*jobs.recording(folder, "-n", str(RANKS)), str(program.path), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | YIELDING)
    return mpiprof.open(folder)


def run_once(program: jobs.Program, name: str, factor: int) -> Result:
    """Run a program with and without its delay."""
    with tempfile.TemporaryDirectory(dir=".") as made:
        faulty, repaired = (
            record(program, [name, switch, str(factor)], Path(made) / switch)
            for switch in ("faulty", "repaired")
        )
        prediction = predict_run(faulty, list(map(parse_change, CHANGES[name])))
        return Result(prediction.run_ns, prediction.predicted_ns, float(repaired.run_ns))


def rows(names: list[str], times: int, factor: int) -> Iterator[Row]:
    """Run the programs several times, and yield their results and the number of right ones."""
    right = 0
    with tempfile.TemporaryDirectory() as folder:
        program = jobs.compiled(SOURCE, Path(folder), "-g", "-rdynamic")
        for name in names:
            results = [run_once(program, name, factor) for _ in range(times)]
            result = Result(
                *(
                    median(getattr(one, field) for one in results)
                    for field in ("faulty_ns", "predicted_ns", "repaired_ns")
                )
            )
            right += abs(result.error) <= MAX_ERROR
            yield Row(f"run time without delay: {name}", "", str(result))
    share = right / len(names)
    asked = f"{MAX_ERROR:.0%} in {MIN_RIGHT:.0%}"
    yield Row("predictions that are right", asked, f"{right} of {len(names)}", share >= MIN_RIGHT)


def command() -> int:
    """Run the programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, metavar="N")
    parser.add_argument("--factor", type=int, default=1, metavar="N", help="of all work")
    choices = ", ".join(CHANGES)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"all of {choices}")
    args = parser.parse_args()
    return (
        0
        if printed(rows(args.programs or list(CHANGES), args.times, args.factor))
        else THRESHOLD_MISSED
    )


if __name__ == "__main__":
    sys.exit(command())
