"""Runs the decisions of `--switch auto` for given times, without MPI.

programs/selection_decide.c feeds windows to core/selection/online/decide.c and probe.c. Each
candidate has one time, the library's own first, with noise and outliers from a seed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from support.compilation import of_the_core
from support.jobs import run


@dataclass(frozen=True)
class Outcome:
    """The choices and their instances, the beginnings of phases, and the number of probes."""

    choices: list[tuple[int, int]]
    phases: list[tuple[int, str]]
    probes: int
    later: int
    time: float  # relative to that of the library's own choice
    own: int  # number of the library's named algorithms that were probed
    tried: tuple[int, ...]  # instances of each candidate

    @property
    def last(self) -> int:
        """Return the candidate that runs at the end."""
        return self.choices[-1][0] if self.choices else 0


def compile_decisions(folder: Path) -> Path:
    """Compile the decisions into a separate program in a folder."""
    names = (
        *("decide", "candidate_set", "current_choice", "observe", "window_length", "probe"),
        "rank_test",
    )
    parts = [f"selection/online/{name}" for name in names]
    return of_the_core(folder / "decide", parts, source="selection_decide.c")


def outcome(
    decide: Path,
    times: str,
    *,
    instances: int = 300,
    change: int = 10**6,
    noise: int = 3,
    seed: int,
) -> Outcome:
    """Run some instances."""
    words = [str(decide), str(instances), str(change), str(noise), str(seed), *times.split()]
    printed = run(words, check=True).stdout
    numbers = re.search(
        r"probes (\d+) of them later (\d+)\ntime ([\d.]+)\n.* (\d+)\ntried ([\d ]+)", printed
    )
    assert numbers is not None
    return Outcome(
        [(int(c), int(at)) for c, at in re.findall(r"choice (\d+) at (\d+)", printed)],
        [(int(at), why) for at, why in re.findall(r"phase \d+ at (\d+): (\w+)", printed)],
        int(numbers[1]),
        int(numbers[2]),
        float(numbers[3]),
        int(numbers[4]),
        tuple(map(int, numbers[5].split())),
    )
