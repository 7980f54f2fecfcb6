"""The selector's behaviour in a loop, from the trace's records and the selector's log."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import mpiprof
from mpiprof.bench.harness.loop import LoopTimes
from mpiprof.errors import MpiprofError
from mpiprof.operations import SELECTORS
from mpiprof.trace import selector_log

CHOSEN_SHARE = 0.6  # of the instances, from the end; the paper reports the last 120 of 200


@dataclass(frozen=True)
class Behaviour:
    """Algorithm and choice (observe, probe, chosen) of each instance of a loop."""

    algorithms: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()  # empty if the trace has none
    phases: tuple[int, ...] = ()  # first instance of each phase, from the selector's log
    windows: tuple[int, ...] = ()  # length of the phase's first window in instances, 0 if unknown

    def probes_by_phase(self) -> list[int]:
        """Return the number of probing instances in each phase; [] if the trace has no choices."""
        if not any(self.choices):
            return []
        edges = [0, *(p for p in self.phases if p > 0), len(self.choices)]
        return [self.choices[first:last].count("probe") for first, last in pairwise(edges)]

    def chosen_instances(self, instances: int) -> slice:
        """Return the instances after the last probe; if there are no choices, the last 60 %."""
        if "chosen" not in self.choices:
            return slice(instances - max(round(CHOSEN_SHARE * instances), 1), instances)
        last = max((i for i, c in enumerate(self.choices) if c == "probe"), default=-1)
        return slice(min(max(last + 1, self.choices.index("chosen")), instances - 1), instances)

    def chosen_algorithm(self, instances: int) -> str:
        """Return the most frequent algorithm of the instances under the final choice."""
        counts = Counter(self.algorithms[self.chosen_instances(instances)])
        return counts.most_common(1)[0][0] if counts else ""


def read_log(folder: Path | None) -> str:
    """Return the selector's log so far, or "" if there is no readable log."""
    if folder is None:
        return ""
    try:
        return (folder / selector_log.FILE).read_text()
    except OSError:
        return ""


def parse_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the parsed lines of the selector's log, without a cut line."""
    for line in lines:
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def find_phases(lines: Sequence[str], operation: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first instance of each phase of an operation's keys, and its window length."""
    operations: dict[str, str] = {}
    phases: list[tuple[int, int]] = []
    for entry in parse_lines(lines):
        key = str(entry.get("key"))
        if entry.get("kind") == "key":
            operations[key] = str(entry.get("operation"))
        # A key without a key line counts as a key of the operation.
        if entry.get("kind") == "phase" and operations.get(key, operation) == operation:
            phases.append((int(entry.get("instance", 0)), int(entry.get("window", 0))))
    phases.sort()
    return tuple(i for i, _ in phases), tuple(w for _, w in phases)


def read_behaviour(folder: Path | None, loops: Sequence[LoopTimes]) -> list[Behaviour]:
    """Return the selector's behaviour in each loop, from rank 0's records in the trace."""
    try:
        events = mpiprof.open(folder).events if folder is not None else None
    except MpiprofError:
        events = None
    return [loop_behaviour(events, looped) for looped in loops]


def loop_behaviour(events: Any, looped: LoopTimes) -> Behaviour:
    """Return the selector's behaviour in one loop; `events` is None without a trace."""
    operation = looped.loop.cases[0].operation
    selector = max(looped.case_index(name) for name in SELECTORS)
    began, windows = find_phases(looped.log_lines, operation)
    if events is None or selector < 0:
        return Behaviour(phases=began, windows=windows)
    enter = events["enter_ns"].to_numpy(np.int64)
    begins, exits = looped.begins[selector, :, 0], looped.exits[selector, :, 0]
    lap = np.searchsorted(begins, enter, "right") - 1
    inside = (lap >= 0) & (enter <= exits[lap])  # not in another case's laps
    inside &= (events["rank"] == 0) & (events["operation"] == operation)
    mine = events[inside].sort_values("enter_ns")
    choices = tuple(map(str, mine["choice"])) if "choice" in mine else ()
    return Behaviour(tuple(map(str, mine["algorithm"])), choices, began, windows)
