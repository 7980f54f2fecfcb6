"""Time that recording adds to a short message: `python -m benchmarks.message_overhead`.

One rank sends messages to itself in C, bare and recorded in turn. Only one side of each message is
recorded. The fastest of many short batches counts, because other programs can only slow a batch
down. The requirements apply to the time beyond the readings of the clock, two a call.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.checks import Row, report_rows
from benchmarks.jobs import compiled, recording
from mpiprof.errors import MpiprofError

SOURCE = Path(__file__).with_suffix(".c")
LEVELS = ("auto", "all", "sums")
# Loop -> required ns beyond the clock readings, and pairs of readings for each message.
GOALS = {
    "Send": (60, 1.0),
    "Recv": (60, 1.0),
    "Irecv+Wait": (100, 2.0),
    "Irecv+Waitall": (100, 1.25),
    "Iprobe in vain": (25, 0.0),  # repeated calls in vain read no clock
    "Test in vain": (25, 0.0),
}


def measure(words: Sequence[str]) -> dict[str, float]:
    """Return the ns of a message in the fastest batch of each loop."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MpiprofError(f"{' '.join(words)} failed: {done.stderr.strip()}")
    rows = (line.rsplit(None, 1) for line in done.stdout.splitlines())
    return {name: float(ns) for name, ns in rows}


def least(measured: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the least time of each loop over several runs."""
    return {name: min(times[name] for times in measured) for name in measured[0]}


def make_rows(batches: int, alternations: int) -> Iterator[Row]:
    """Yield the added time of each loop and level."""
    with tempfile.TemporaryDirectory(prefix="mpiprof-messages-") as name:
        words = [str(compiled(SOURCE, Path(name)).path), str(batches)]
        bare: list[dict[str, float]] = []
        recorded: dict[str, list[dict[str, float]]] = {level: [] for level in LEVELS}
        for i in range(alternations):
            bare.append(measure(words))
            for level, times in recorded.items():
                trace = Path(name) / f"{level}{i}"
                times.append(measure([*recording(trace, "--messages", level), *words]))
    usual = least(bare)
    for level, times in recorded.items():
        fastest = least(times)
        for loop, (goal, pairs) in GOALS.items():
            added = fastest[loop] - usual[loop] - pairs * usual["clock"]
            title = f"{loop}, messages {level}: added"
            yield Row(title, f"<= {goal} ns", f"{added:.0f} ns", added <= goal)


def command() -> int:
    """Print the table; the exit code is 3 if a requirement is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.message_overhead", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--batches", type=int, default=150, help="of each loop, 500 messages each")
    parser.add_argument("--alternations", type=int, default=3, help="bare and recorded in turn")
    options = parser.parse_args()
    return report_rows(make_rows(options.batches, options.alternations))


if __name__ == "__main__":
    sys.exit(command())
