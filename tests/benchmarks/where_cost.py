"""Time that `--where` adds to a recorded program: `python -m benchmarks.where_cost`.

Programs on two ranks run without samples and with samples at several periods, in turn, so that
drift of the machine affects all alike. A program does a fixed amount of work in blocks, and the
median block counts. The output has the median of the ratios over all turns with its 95 % interval.
The time of a short call on one rank is in rows of its own. Needs two processors that do nothing
else. The exit code is 3 if the cost at the usual period may exceed the requirement.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import mpiprof
from benchmarks.checks import Row, report_rows
from benchmarks.jobs import compiled, recording
from mpiprof.collectives.papers.harness.study import ratio_interval
from mpiprof.errors import MpiprofError

SOURCE = Path(__file__).with_suffix(".c")
LOOP = Path(__file__).with_name("where_cost_loop.py")
RANKS = 2
USUAL_US = 10_000  # period of --where
PERIODS_US = (20_000, USUAL_US, 5_000, 1_000)
GOAL = 0.01
TURNS, BLOCKS = 15, 20
PERIOD_VARIABLE = "MPIPROF_WHERE_PERIOD"


@dataclass(frozen=True)
class Times:
    """Times in ns: median block, and a call in the fastest batch."""

    block: float
    call: float


def parse_times(output: str) -> Times:
    """Return the times that a program printed."""
    values: dict[str, list[float]] = {"block": [], "call": []}
    for line in output.splitlines():
        name, ns = line.split()
        values[name].append(float(ns))
    return Times(float(np.median(values["block"])), min(values["call"]))


def run_once(words: Sequence[str], trace: Path, period_us: int) -> Times:
    """Record a program, with samples unless the period is 0."""
    options = ["-n", str(RANKS), *["--where"] * (period_us > 0)]
    environment = os.environ | {PERIOD_VARIABLE: str(period_us)}
    command = [*recording(trace, *options), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise MpiprofError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    sampled = mpiprof.open(trace).tables.presite_samples
    if bool(sampled) != (period_us > 0):
        notes = "; ".join(mpiprof.open(trace).notes)
        raise MpiprofError(f"{trace}: {len(sampled)} locations were sampled: {notes}")
    return parse_times(done.stdout)


def measure(words: Sequence[str], turns: int, folder: Path) -> dict[int, list[Times]]:
    """Return the times of a program by period (0: no samples), one of each turn."""
    times: dict[int, list[Times]] = {period: [] for period in (0, *PERIODS_US)}
    for turn in range(turns):
        order = np.random.default_rng(turn).permutation(list(times))
        for period in order.tolist():
            trace = folder / f"trace-{turn}-{period}"
            times[period].append(run_once(words, trace, period))
    return times


def cost_rows(name: str, times: dict[int, list[Times]]) -> Iterator[Row]:
    """Yield the cost of each period, and what sampling adds to a short call."""
    for period in PERIODS_US:
        pairs = list(zip(times[period], times[0], strict=True))
        ratios = np.array([sampled.block / plain.block for sampled, plain in pairs])
        ratio = ratio_interval(ratios, np.ones(len(ratios)))
        value, low, high = ratio - 1, ratio.low - 1, ratio.high - 1
        asked = f"<= {100 * GOAL:g} %" if period == USUAL_US else ""
        measured = f"{100 * value:.2f} % ({100 * low:.2f} to {100 * high:.2f})"
        what = f"{name}, a sample every {period / 1000:g} ms: added time"
        yield Row(what, asked, measured, high <= GOAL or not asked)
    added = [
        sampled.call - plain.call for sampled, plain in zip(times[USUAL_US], times[0], strict=True)
    ]
    yield Row(f"{name}, a short call: added time", "", f"{np.median(added):.0f} ns")


def make_rows(turns: int, blocks: int, names: Sequence[str]) -> Iterator[Row]:
    """Measure the programs, and yield their rows."""
    with tempfile.TemporaryDirectory(prefix="mpiprof-where-") as made:
        folder = Path(made)
        programs = {
            "C": [str(compiled(SOURCE, folder, "-g").path), str(blocks)],
            "Python": [sys.executable, str(LOOP), "python", str(blocks)],
            "NumPy": [sys.executable, str(LOOP), "numpy", str(blocks)],
        }
        for name in names or programs:
            (folder / name).mkdir()
            yield from cost_rows(name, measure(programs[name], turns, folder / name))


def command() -> int:
    """Print the table; the exit code is 3 if a requirement is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.where_cost", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N")
    parser.add_argument("--blocks", type=int, default=BLOCKS, metavar="N")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="C, Python or NumPy")
    options = parser.parse_args()
    return report_rows(make_rows(options.turns, options.blocks, options.programs))


if __name__ == "__main__":
    sys.exit(command())
