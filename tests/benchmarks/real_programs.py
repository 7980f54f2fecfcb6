"""Plants of known causes in programs of others: `python -m benchmarks.real_programs FILE`.

Each line of FILE has the name and the command of a program, such as one of a distribution, and the
input files that its folder must have, separated by tabs. An undisturbed run of each is recorded,
and runs with a plant:

    stop    one rank is stopped once for STOP_S
    limit   one rank is stopped for a half of each period, as by a limit of processor time
    pin     two ranks share a processor

The first two sentences on causes must name the rank and the kind of a plant, and accuse nobody
without a plant. The exit code is 3 if too few do.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from support.cause_judgement import NO_CAUSE, named_ranks, read_report

import mpiprof
from benchmarks import jobs
from benchmarks.checks import Row, report_rows
from mpiprof.errors import MpiprofError

STOP_S, PERIOD_S = 2.0, 0.1
START_S, TIMEOUT_S = 2.0, 60.0  # until a plant; until all ranks have begun
MIN_NAMED, MAX_ACCUSED = 0.9, 0.05
PLANTS = {
    "stop": r"off the processor|stopped",
    "limit": r"stopped|limit|processor",
    "pin": r"bound to|share|same processor|same core|for a processor",
}


@dataclass(frozen=True)
class Result:
    """The sentences on a run of `ranks` ranks.

    kind: of the plant, "" without one. disturbed: the ranks that it concerns.
    """

    ranks: int
    kind: str
    disturbed: tuple[int, ...]
    sentences: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Return whether one of the first two sentences names the plant, or none accuses a rank.

        A sentence on all ranks, such as that they share processors, neither accuses a rank nor
        names a plant.
        """
        accusing = [
            sentence
            for sentence in self.sentences
            if 0 < len(named_ranks(sentence)) < self.ranks and not NO_CAUSE.search(sentence)
        ]
        if self.kind:
            return any(self._names_plant(sentence) for sentence in accusing)
        return not accusing

    def _names_plant(self, sentence: str) -> bool:
        is_kind = re.search(PLANTS[self.kind], sentence) is not None
        return is_kind and set(self.disturbed) <= named_ranks(sentence)


def record(command: Sequence[str], ranks: int, folder: Path, kind: str, chosen: int) -> Result:
    """Run a program with a plant in a rank, and return the sentences on it."""
    trace = folder / "trace"
    job = subprocess.Popen(
        [*jobs.recording(trace, "--yes", "-n", str(ranks)), *command],
        cwd=folder,
        env=os.environ | {"OMPI_MCA_mpi_yield_when_idle": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    disturbed: tuple[int, ...] = ()
    if kind:
        pids = wait_for_ranks(trace, ranks)
        disturbed = plant(job, pids, kind, chosen)
    job.wait()
    sentences = read_report(mpiprof.open(trace)).sentences
    return Result(ranks, kind, disturbed, tuple(sentences[1:3]))


def wait_for_ranks(trace: Path, ranks: int) -> list[int]:
    """Return the process ids of the ranks of a job, some time after their start."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        with suppress(MpiprofError):
            processes = mpiprof.open(trace).tables.processes
            if len(processes) == ranks:
                time.sleep(START_S)
                return [int(processes[rank]["pid"]) for rank in range(ranks)]
        time.sleep(START_S / 10)
    raise MpiprofError(f"{trace}: not all {ranks} ranks have begun in {TIMEOUT_S} s")


def plant(
    job: subprocess.Popen[bytes], pids: Sequence[int], kind: str, rank: int
) -> tuple[int, ...]:
    """Disturb a rank of a running job, and return the ranks that the plant concerns."""
    pid = pids[rank]
    if kind == "pin":
        other = (rank + 1) % len(pids)
        for shared in (pid, pids[other]):
            command = ["taskset", "-a", "-p", "-c", "0", str(shared)]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return rank, other
    with suppress(ProcessLookupError):
        if kind == "stop":
            time.sleep(random.random())
            stop(pid, STOP_S)
        while kind == "limit" and job.poll() is None:
            stop(pid, PERIOD_S / 2)
            time.sleep(PERIOD_S / 2)
    return (rank,)


def stop(pid: int, duration_s: float) -> None:
    """Stop a process for some time."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(duration_s)
    os.kill(pid, signal.SIGCONT)


def run_programs(path: Path, ranks: int, kinds: Sequence[str], seed: int) -> Iterator[Row]:
    """Run each program of a file with each kind of plant, and yield a row for each run."""
    random.seed(seed)
    results = []
    for line in path.read_text(encoding="utf-8").splitlines():
        name, command, *inputs = line.split("\t")
        for kind in kinds:
            with tempfile.TemporaryDirectory(prefix="mpiprof-real-") as folder:
                for of_input in inputs:
                    shutil.copy(of_input, folder)
                chosen = random.randrange(ranks)
                try:
                    result = record(shlex.split(command), ranks, Path(folder), kind, chosen)
                except MpiprofError as error:
                    print(f"  {name} {kind}: {error}", file=sys.stderr)
                    continue
            results.append(result)
            if not result.is_right:
                print(f"  {name} {kind} {result.disturbed}:", *result.sentences, sep="\n    ")
            judgement = "right" if result.is_right else "WRONG"
            yield Row(f"{name} {kind or 'undisturbed'}", "", judgement)
    for is_planted, asked in ((True, f">= {MIN_NAMED:.0%}"), (False, f">= {1 - MAX_ACCUSED:.0%}")):
        right = [result.is_right for result in results if bool(result.kind) == is_planted]
        least = MIN_NAMED if is_planted else 1 - MAX_ACCUSED
        what = "planted causes named" if is_planted else "undisturbed runs accuse nobody"
        if right:
            is_met = sum(right) >= least * len(right)
            yield Row(what, asked, f"{sum(right)} of {len(right)}", is_met)


def command() -> int:
    """Run the programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="of names and commands")
    parser.add_argument("--ranks", type=int, default=4, metavar="N")
    parser.add_argument("--seed", type=int, default=1, help="of the ranks that are disturbed")
    parser.add_argument("--plants", nargs="*", default=["", *PLANTS], metavar="KIND")
    args = parser.parse_args()
    return report_rows(run_programs(args.file, args.ranks, args.plants, args.seed))


if __name__ == "__main__":
    sys.exit(command())
