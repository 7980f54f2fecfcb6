"""Planted reasons of a delay, and the reasons that are found: `python -m benchmarks.delay_reasons`.

Two ranks run several steps, and rank 1 is late in each step for one reason. Runs that other
processes disturb are repeated. The exit code is 3 if a requirement is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pandas as pd

import mpiprof
from benchmarks import jobs
from benchmarks.checks import Row, report_rows
from mpiprof.causes import delay_reasons
from mpiprof.causes.delay_reasons import DelayReasons, explain_delay, find_largest_reason
from mpiprof.errors import MpiprofError
from mpiprof.trace.thread_times import find_stretches

SOURCE = Path(__file__).with_suffix(".c")
PYTHON_SOURCE = Path(__file__).parents[1] / "programs" / "garbage_collection.py"
LATE_RANK = 1
# Planted reason -> the right one.
RIGHT = {
    "work": delay_reasons.MORE_WORK,
    "sleep": delay_reasons.BLOCKED,
    "files": delay_reasons.BLOCKED,
    "cold": delay_reasons.PAGE_FAULTS,
    "touch": delay_reasons.PAGE_FAULTS,
    "neighbour": delay_reasons.PREEMPTED,
    "thread": delay_reasons.OTHER_THREADS,
    "quota": delay_reasons.THROTTLED,
    "collection": delay_reasons.GARBAGE_COLLECTION,
}
GROUPS = Path("/sys/fs/cgroup/cpu")  # control groups of version 1
PERIOD_US, QUOTA_US = 10_000, 5_000
MAX_SHARES = 1 << 18  # of the processors; other processes have 1024
MAX_QUEUE = 0.1  # share of rank 0's time in the run queue, on a machine that is not busy
MAX_REPEATS = 3  # of a run that other processes disturb
TIMES = 20
MIN_RIGHT = 0.9


def names() -> list[str]:
    """Return the reasons that can be planted here: only root may limit a control group."""
    can_limit = os.geteuid() == 0 and os.access(GROUPS, os.W_OK)
    return [name for name in RIGHT if name != "quota" or can_limit]


@contextlib.contextmanager
def program_words(
    name: str, program: Path, folder: Path, python: str = sys.executable
) -> Iterator[list[str]]:
    """Yield the command that plants a reason; `program` is the compiled SOURCE."""
    if name == "collection":
        yield [python, str(PYTHON_SOURCE)]
    elif name == "quota":
        with control_group() as group:
            yield [str(program), name, str(folder), str(group)]
    else:
        yield [str(program), name, str(folder)]


@contextlib.contextmanager
def control_group() -> Iterator[Path]:
    """Create a control group with a limited one in it, and remove them after their processes.

    On a busy machine, a rank without priority would run for less than its quota anyway.
    """
    group = GROUPS / f"mpiprof-test-{os.getpid()}"
    limited = group / "limited"
    limited.mkdir(parents=True)
    try:
        (group / "cpu.shares").write_text(str(MAX_SHARES))
        (limited / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (limited / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        yield group
    finally:
        for made in (limited, group):
            with contextlib.suppress(OSError):
                made.rmdir()


@dataclass(frozen=True)
class Steps:
    """The intervals of both ranks between the two barriers, and facts of the trace.

    fault_ns: time of a page fault. stretches: of the other threads of each rank.
    """

    late: pd.DataFrame
    reference: pd.DataFrame
    fault_ns: float | None
    stretches: dict[int, float]

    def explain(self) -> DelayReasons:
        """Return the reasons for which rank 1 is later than rank 0 at the second barrier."""
        return explain_delay(self.late, self.reference, self.fault_ns, self.stretches)

    @property
    def were_disturbed(self) -> bool:
        """True if rank 0 waited for a processor, too: then other processes hide the reason."""
        length = self.reference["end_ns"] - self.reference["begin_ns"]
        return bool(self.reference["queue_ns"].sum() > MAX_QUEUE * length.sum())

    def judge(self, name: str) -> str:
        """Return whether the named reason is right, undecided, disturbed or wrong."""
        found = find_largest_reason(self.explain())
        if found == RIGHT[name]:
            return "right"
        if self.were_disturbed:
            return "disturbed"
        return "undecided" if found is None else f"wrong: {found}"


def read_steps(trace: mpiprof.Trace) -> Steps:
    """Return the intervals between the two barriers, which both ranks must have."""
    table = trace.intervals
    source = PYTHON_SOURCE if table["after_site"].str.contains(PYTHON_SOURCE.name).any() else SOURCE
    lines = source.read_text(encoding="utf-8").splitlines()
    for side, mark in (("before", "before the step"), ("after", "after the step")):
        (line,) = (number for number, text in enumerate(lines, 1) if mark in text)
        table = table[table[f"{side}_site"].str.contains(rf":{line}\b")]
    is_late = table["rank"] == LATE_RANK
    if is_late.all() or not is_late.any():
        raise MpiprofError(f"{trace.path}: no intervals between the barriers of {source.name}")
    stretches = find_stretches(trace.tables.threads)
    return Steps(table[is_late], table[~is_late], trace.page_fault_ns, stretches)


def run_once(name: str, program: Path) -> str:
    """Plant a reason, and return the judgement."""
    with tempfile.TemporaryDirectory(dir=".") as made:
        folder = Path(made).absolute()
        with program_words(name, program, folder) as words:
            command = [*jobs.recording(folder / "trace", "-n", "2"), *words]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return read_steps(mpiprof.open(folder / "trace")).judge(name)


def rows(planted: list[str], times: int) -> Iterator[Row]:
    """Run each planted reason several times, and yield its results."""
    with tempfile.TemporaryDirectory() as folder:
        program = jobs.compiled(SOURCE, Path(folder), "-g", "-pthread").path
        for name in planted:
            judgements = (run_once(name, program) for _ in range(times * MAX_REPEATS))
            counts = Counter(islice((j for j in judgements if j != "disturbed"), times))
            measured = f"{counts['right']} of {times} right"
            others = (item for item in counts.most_common() if item[0] != "right")
            measured += "".join(f", {count} {result}" for result, count in others)
            is_met = counts["right"] >= MIN_RIGHT * times
            is_met &= not any(result.startswith("wrong") for result in counts)
            yield Row(
                f"reason of a delay: {name}", f"{MIN_RIGHT:.0%}, none wrong", measured, is_met
            )


def command() -> int:
    """Plant all reasons, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, metavar="N")
    parser.add_argument("planted", nargs="*", metavar="REASON", help="all by default")
    args = parser.parse_args()
    return report_rows(rows(args.planted or names(), args.times))


if __name__ == "__main__":
    sys.exit(command())
