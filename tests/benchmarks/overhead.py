"""Time that recording adds to a blocking collective: `python -m benchmarks.overhead [--batches N]`.

A loop on MPI_COMM_SELF, where the operation itself takes almost no time, runs in C (the call site
is a return address) and in Python (an interpreter frame). Unrecorded runs alternate with runs that
record all events, a ring of the last events, or sums. The fastest of many batches counts, because
other programs can only slow a batch down. A batch fills several windows of the log, so it includes
the first touch of the pages. The requirement applies to the time beyond two clock readings. One
process runs at a time.

A second loop on two ranks measures the time that `--switch auto` adds to recording. It runs on
MPI_COMM_WORLD, where a selection is possible. The fastest batch is one after the probing, outside
the windows. This part needs two processors.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.checks import Row, store
from benchmarks.jobs import compiler
from mpiprof.collectives.papers.harness.loop import parse_lines, read_log
from mpiprof.errors import MpiprofError

HERE = Path(__file__).parent
CALLS = 20_000  # a batch: ten windows of the log
GOALS_NS = {"native": 100, "Python": 400}
OPERATIONS = ("barrier", "allreduce")
MODES = ("events", "ring", "summary")
AUTO_GOAL_NS = 1000


@dataclass(frozen=True)
class Cost:
    """Time of a call in ns: fastest batch, mean of all batches, slowest call.

    clock: time of a clock reading, or NaN if the loop is in Python.
    """

    fastest: float
    mean: float
    worst: float
    clock: float


def measure(argv: Sequence[str]) -> Cost:
    """Run a loop and read its output; raises MpiprofError if it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    words = done.stdout.split()
    if done.returncode or len(words) != 4:
        raise MpiprofError(f"{' '.join(argv)} failed: {(done.stderr or done.stdout).strip()}")
    return Cost(*map(float, words))


def recorded(argv: Sequence[str], folder: Path, *options: str) -> tuple[Cost, str]:
    """Measure a loop under mpiprof and return its selector log; the trace is removed."""
    trace = folder / "trace"
    words = [sys.executable, "-m", "mpiprof", "run", "-q", "-o", str(trace), *options, "--", *argv]
    cost, notes = measure(words), read_log(trace)
    shutil.rmtree(trace)
    return cost, notes


def best(costs: Sequence[Cost]) -> Cost:
    """Return the best of several runs; its slowest call is the fastest of their slowest calls."""
    return Cost(
        min(c.fastest for c in costs),
        min(c.mean for c in costs),
        min(c.worst for c in costs),
        min(c.clock for c in costs),
    )


def compare(argv: Sequence[str], alternations: int, folder: Path) -> tuple[Cost, dict[str, Cost]]:
    """Measure a loop bare and recorded in each mode in turn."""
    bare: list[Cost] = []
    wrapped: dict[str, list[Cost]] = {mode: [] for mode in MODES}
    for _ in range(alternations):
        bare.append(measure(argv))
        for mode, costs in wrapped.items():
            costs.append(recorded(argv, folder, "--record", mode)[0])
    return best(bare), {mode: best(costs) for mode, costs in wrapped.items()}


def holds(notes: str, operation: str) -> str:
    """Return the selector's last choice for an operation, or "?" without an entry."""
    entries = list(parse_lines(notes.splitlines()))
    keys = {t.get("key") for t in entries if t.get("operation") == operation}
    ends = [t for t in entries if t.get("kind") == "end" and t.get("key") in keys]
    most = max(ends, key=lambda t: int(t.get("instances", 0)), default={})
    return str(most.get("algorithm", "?"))


def compare_auto(argv: Sequence[str], alternations: int, folder: Path) -> tuple[Cost, Cost, str]:
    """Measure a loop on two ranks, recorded and under auto; also returns auto's choice."""
    plain, auto, notes = [], [], ""
    for _ in range(alternations):
        plain.append(recorded(argv, folder, "-n", "2")[0])
        cost, notes = recorded(argv, folder, "-n", "2", "--switch", "auto")
        auto.append(cost)
    return best(plain), best(auto), notes


def show(kind: str, operation: str, mode: str, bare: Cost, wrapped: Cost, clock: float) -> None:
    """Print and store one comparison."""
    added, mean = wrapped.fastest - bare.fastest, wrapped.mean - bare.mean
    beyond = added - 2 * clock
    verdict = "within" if beyond <= GOALS_NS[kind] else "MISSES"
    print(
        f"{kind:<7} {operation:<10} {mode:<8} {bare.fastest:7.0f} {wrapped.fastest:9.0f} "
        f"{added:7.0f} {beyond:8.0f} {mean:11.0f} {bare.worst / 1e3:9.0f} "
        f"{wrapped.worst / 1e3:9.0f}   {verdict} {GOALS_NS[kind]} ns"
    )
    goal = GOALS_NS[kind]
    title = f"{'C' if kind == 'native' else kind} {operation}, {mode}: added to a call"
    store(Row(title, f"<= {goal} ns", f"{beyond:.0f} ns", beyond <= goal))


def show_auto(operation: str, plain: Cost, auto: Cost, choice: str) -> None:
    """Print and store one comparison on two ranks."""
    added = auto.fastest - plain.fastest
    verdict = "within" if added <= AUTO_GOAL_NS else "MISSES"
    print(
        f"{operation:<10} {plain.fastest:9.0f} {auto.fastest:7.0f} {added:7.0f} {choice:>20}   "
        f"{verdict} {AUTO_GOAL_NS} ns"
    )
    title = f"C {operation}, `--switch auto`: added to a recorded call"
    store(Row(title, f"<= {AUTO_GOAL_NS} ns", f"{added:.0f} ns", added <= AUTO_GOAL_NS))


def main() -> None:
    """Compile the loop, run all kinds, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--batches", type=int, default=50, help=f"of {CALLS} calls each")
    parser.add_argument("--alternations", type=int, default=5, help="bare and recorded in turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpiprof-overhead-") as name:
        folder = Path(name)
        program = folder / "overhead"
        subprocess.run([compiler(), "-O2", "-o", program, HERE / "overhead.c"], check=True)
        loops = {
            "native": [str(program)],
            "Python": [sys.executable, str(HERE / "overhead_loop.py")],
        }
        clock = measure([str(program), "barrier", "1", "1"]).clock
        print(f"a reading of the clock takes {clock:.0f} ns; times in ns a call, worst in us\n")
        print(
            f"{'site':<7} {'operation':<10} {'record':<8} {'bare':>7} {'recorded':>9} {'added':>7} "
            f"{'-2clocks':>8} {'added, mean':>11} {'worst':>9} {'recorded':>9}"
        )
        for kind, loop in loops.items():
            for operation in OPERATIONS:
                argv = [*loop, operation, str(options.batches), str(CALLS)]
                bare, wrapped = compare(argv, options.alternations, folder)
                for mode, cost in wrapped.items():
                    show(kind, operation, mode, bare, cost, clock)
        print(f"\n{'2 ranks':<10} {'recorded':>9} {'auto':>7} {'added':>7} {'auto holds':>20}")
        for operation in OPERATIONS:
            argv = [str(program), operation, str(options.batches), str(CALLS), "world"]
            plain, auto, notes = compare_auto(argv, options.alternations, folder)
            show_auto(operation, plain, auto, holds(notes, operation))


def command() -> int:
    """Run the benchmark and return the exit code; an error becomes one line on stderr."""
    try:
        main()
    except MpiprofError as error:
        sys.stderr.write(f"mpiprof: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(command())
