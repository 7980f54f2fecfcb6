"""Collectives in a loop, as in programs (Faraj et al. 2008, Figures 4 and 11).

Unlike single calls (timing.py), the instances of a loop form a history from which a selector
learns, so `auto` and `robust` are choices. The study's own agreements use point-to-point messages.
So the loop's operation is the only collective that the selector sees.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
import timeit
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mpiprof
from mpiprof.account.wait_states import score_instances
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.papers.harness.calls import CALL_MAKERS, PreparedCall, check
from mpiprof.collectives.papers.harness.case import AGAIN, Case
from mpiprof.collectives.papers.harness.processors import measure_processor_use
from mpiprof.collectives.papers.harness.study import estimate_case_ns
from mpiprof.collectives.papers.harness.timing import Int, Ranks, gather_times, lead_ns
from mpiprof.collectives.simulate import lower_bound
from mpiprof.errors import MpiprofError
from mpiprof.facts.operations import SELECTORS
from mpiprof.trace import selector_log

# Times the bound: assumed time of a library or selector that was not yet measured.
LIBRARY_GUESS = 2
TAG = 11
CHOSEN_SHARE = 0.6  # of the instances, from the end; the paper reports the last 120 of 200
CHUNK = 1000  # elements of one piece of computation


@dataclass(frozen=True)
class Phase:
    """From instance `since` on, rank i arrives late_ns[i] after the earliest possible time."""

    since: int
    late_ns: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """Consecutive instances."""

    labels: dict[str, Any]  # identify the loop in a report
    # Of one operation and problem. Each case runs all its laps in a row, because a call affects the
    # next one (a tenth of 1.5 ms), and a program's algorithm also runs in a row.
    cases: tuple[Case, ...]
    laps: int
    computation_ns: int = 0  # before each call
    phases: tuple[Phase, ...] = ()
    # All ranks begin together, as after the barrier of Figure 11; otherwise each rank continues
    # when it leaves the previous call (Figure 4).
    agreed: bool = True
    alternating: int = 0  # laps after which the cases alternate, because a machine drifts

    def running_order(self) -> Iterator[tuple[int, range]]:
        """Yield the cases in running order, each with its laps."""
        row = self.alternating or self.laps
        for first in range(0, self.laps, row):
            for i in range(len(self.cases)):
                yield i, range(first, min(first + row, self.laps))

    def late_ns(self, lap: int, rank: int) -> int:
        """Return how late a rank arrives in a lap, in ns."""
        return next((p.late_ns[rank] for p in reversed(self.phases) if lap >= p.since), 0)


@dataclass(frozen=True)
class LoopTimes:
    """Times of a loop on the joint clock, ns: cases x laps x ranks."""

    loop: Loop
    begins: Int  # of the computation before each call
    arrivals: Int  # of each call
    exits: Int
    # Share of the computation's time in which a rank had its processor; NaN without computation.
    processor_share: float = math.nan
    log_lines: tuple[str, ...] = ()  # the selector's log of the loop (selection.jsonl)

    def case_index(self, choice: str) -> int:
        """Return the index of a choice among the cases, or -1 if it did not run."""
        names = [case.choice for case in self.loop.cases]
        return names.index(choice) if choice in names else -1


def elapsed_ns(_: Case, arrivals: Int, exits: Int) -> NDArray[np.float64]:
    """Return the mean over ranks of the time in the call, by lap: e of the paper's Section 3."""
    mean: NDArray[np.float64] = (exits - arrivals).mean(axis=-1)
    return mean


def total_ns(_: Case, arrivals: Int, exits: Int) -> NDArray[np.float64]:
    """Return the last exit minus the last arrival, by lap."""
    return np.asarray(exits.max(axis=-1) - arrivals.max(axis=-1), np.float64)


def score_ns(case: Case, arrivals: Int, exits: Int) -> NDArray[np.float64]:
    """Return the score (account/wait_states.py), by lap."""
    by_rank = np.moveaxis(arrivals, -1, 0), np.moveaxis(exits, -1, 0)
    return score_instances(case.operation, *by_rank, case.problem)


def lateness_pattern(max_imbalance: int, message_ns: int, size: int) -> tuple[int, ...]:
    """Return Figure 11's imbalance: for each rank the time of 0 to MAX_IF - 1 messages."""
    drawn = np.random.default_rng((11, max_imbalance)).integers(0, max_imbalance, size)
    return tuple(int(r) * message_ns for r in drawn)


# ---- expected duration


def estimate_call_ns(case: Case, machine: Machine) -> float:
    """Return the approximate time of a call in ns."""
    if case.is_native or case.choice in SELECTORS:
        return LIBRARY_GUESS * lower_bound(case.operation, case.problem, machine)
    return estimate_case_ns(case, machine)


def estimate_seconds(loops: Sequence[Loop], machine: Machine, size: int) -> float:
    """Return the approximate time of loops in s, including the agreements on starts."""
    total = 0.0
    for loop in loops:
        between = float(max((max(phase.late_ns) for phase in loop.phases), default=0))
        agreeing = 4 * machine.alpha if loop.agreed else 0.0
        between += max(loop.computation_ns, lead_ns(size) * loop.agreed) + agreeing
        total += loop.laps * sum(estimate_call_ns(case, machine) + between for case in loop.cases)
    return total / 1e9


# ---- computation


class LoopComputation:
    """Computation, equal on all ranks; a timer if ranks outnumber processors."""

    def __init__(self, ranks: Ranks) -> None:
        self._clock = ranks.clock
        self.use = measure_processor_use(ranks.world)
        self.timer = self.use.is_shared
        self._a, self._b = np.zeros(CHUNK), np.full(CHUNK, 3.0)
        self._chunk_ns = 1.0
        self.spent_ns = np.zeros(2, np.int64)  # computing: of the clock, and of the processor
        if not self.timer:
            times = timeit.repeat(lambda: self._compute(200), number=1, repeat=20)
            self._chunk_ns = ranks.world.bcast(float(np.median(times)) / 200 * 1e9)

    def _compute(self, chunks: int) -> None:
        for _ in range(chunks):
            np.multiply(self._b, 2.0, out=self._a)
            np.subtract(self._b, self._a, out=self._a)

    def compute_for(self, ns: int) -> None:
        """Do work of about `ns`, the same on all ranks even if some take longer."""
        if self.timer:
            self._clock.wait_until(self._clock.now_ns() + ns)
        else:
            before = time.monotonic_ns(), time.thread_time_ns()
            self._compute(round(ns / self._chunk_ns))
            self.spent_ns += (time.monotonic_ns() - before[0], time.thread_time_ns() - before[1])


def agree_start(ranks: Ranks, ahead_ns: int) -> int:
    """Agree on a future time: the latest of all ranks' proposals, spread in log2(p) rounds."""
    world = ranks.world
    proposed = np.array([ranks.clock.now_ns() + ahead_ns], np.int64)
    received = np.zeros(1, np.int64)
    distance = 1
    while distance < world.size:
        to, source = (world.rank + distance) % world.size, (world.rank - distance) % world.size
        world.Sendrecv(proposed, to, TAG, received, source, TAG)
        np.maximum(proposed, received, out=proposed)
        distance *= 2
    return int(proposed[0])


# ---- one loop


def run(
    ranks: Ranks,
    work: LoopComputation,
    loop: Loop,
    notes: Callable[[], str],
    step: Callable[[], None],
) -> LoopTimes | None:
    """Run a loop; rank 0 returns its times, other ranks None. notes: returns the selector's log."""
    comm = ranks.communicator(loop.cases[0].members)
    call = CALL_MAKERS[loop.cases[0].operation](loop.cases[0], comm)
    own_times = np.zeros((3, len(loop.cases), loop.laps), np.int64)
    work.spent_ns[:] = 0
    ranks.clock.synchronise()
    before = len(notes()) if ranks.rank == 0 else 0
    agree_start(ranks, 0)
    for i, laps in loop.running_order():
        rule = loop.cases[i].recorder_rule()
        ranks.choose(AGAIN.format(rule) if rule in SELECTORS and laps.start else rule)
        for lap in laps:
            own_times[:, i, lap] = _run_instance(ranks, work, loop, call, lap)
            step()
    ranks.choose("")
    for case in loop.cases:
        check(case, call)
    spent = gather_times(ranks, work.spent_ns)
    every = gather_times(ranks, own_times)
    if every is None or spent is None:
        return None
    total, computing = spent.sum(axis=0).tolist()
    begins, arrivals, exits = np.moveaxis(every, 0, -1)
    log_lines = tuple(notes()[before:].splitlines())
    share = computing / total if total else math.nan
    return LoopTimes(loop, begins, arrivals, exits, share, log_lines)


def _run_instance(
    ranks: Ranks, work: LoopComputation, loop: Loop, call: PreparedCall, lap: int
) -> tuple[int, int, int]:
    """Compute and call once; returns this rank's begin, arrival and exit."""
    late = loop.late_ns(lap, ranks.rank)
    lead = lead_ns(ranks.world.size)
    if loop.agreed and work.timer:  # one timer for both, so that the rank wakes up only once
        start = agree_start(ranks, max(lead, loop.computation_ns))
        begin = start - loop.computation_ns
        ranks.clock.wait_until(start + late)
    else:
        if loop.agreed:
            ranks.clock.wait_until(agree_start(ranks, lead))
        begin = ranks.clock.now_ns()
        if loop.computation_ns + late:
            work.compute_for(loop.computation_ns + late)
    arrival = ranks.clock.now_ns()
    call.run()
    return begin, arrival, ranks.clock.now_ns()


# ---- the selector's behaviour, from the trace's records and the selector's log


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
    with contextlib.suppress(OSError):
        return (folder / selector_log.FILE).read_text() if folder is not None else ""
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
    instances, windows = zip(*sorted(phases), strict=True) if phases else ((), ())
    return instances, windows


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
    loop_events = events[inside].sort_values("enter_ns")
    choices = tuple(map(str, loop_events["choice"])) if "choice" in loop_events else ()
    return Behaviour(tuple(map(str, loop_events["algorithm"])), choices, began, windows)
