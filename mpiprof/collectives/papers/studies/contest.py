"""`auto` against the library and every fixed algorithm, and against `robust`, in one run.

`robust` alternates with the library's choice in a separate loop, as `auto` does. The fixed choices
run before and after the selector's instances, because the machine drifts, with the library's choice
next to them. The best fixed choice is the oracle. Ratios are of scores: the mean over ranks of exit
minus the earliest time that the operation allows, which excludes waiting for a late rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from mpiprof.collectives.catalogue import find_all, parse_parameters
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.intervals import (
    IntervalEstimate,
    format_within,
    median_interval,
)
from mpiprof.collectives.papers.harness.loop import Behaviour, Loop, LoopTimes, Phase, score_ns
from mpiprof.collectives.papers.harness.study import Setup, Values, ratio_interval
from mpiprof.collectives.papers.harness.timing import Int
from mpiprof.collectives.pipeline_formulas import pipeline_block_size, ring_block_size
from mpiprof.collectives.schedule import Problem
from mpiprof.facts import library_algorithms
from mpiprof.facts.operations import AUTO, ROBUST

BLOCKS = (8 << 10, 16 << 10)
FIXED_SHARE = 13  # a thirteenth of the selector's instances before, and a thirteenth after
LEAST_FIXED = 3
ROW = 20  # instances in which the machine is stable; over more it drifts
# Requirements on auto. After probing, its score is at most WITHIN times that of the best fixed
# choice. The median of the probing instances over the keys is at most PROBES. In a whole run of 300
# instances, native's time over auto's is at least LEAST_WHOLE.
WITHIN = 1.01
PROBES = 10
LEAST_WHOLE = 0.99
ROBUST_LAPS = 200  # least instances under `robust`: the paper's 80 probes and 120 others
QUICK_ROBUST_LAPS = 120  # the same in a quick run, with 40 others
BEFORE = "before"  # the part that begins a contest
Measure = Callable[[Case, Int, Int], Values]  # such as loop.score_ns


def candidates(
    setup: Setup, operation: str, problem: Problem, late: int = 0, from_library: bool = False
) -> list[str]:
    """Return native and all mpiprof algorithms, pipelines also with block sizes around the best.

    late: the rank passed to algorithms that take a late rank.
    from_library: whether to add the library's algorithms that mpiprof lacks.
    """
    inter = problem.remote_size > 0
    alpha, beta = setup.machine.alpha, setup.machine.beta
    total = sum(problem.counts) or problem.bytes
    if problem.counts and not inter:
        best = ring_block_size(problem.counts, alpha, beta)
    else:
        best = pipeline_block_size(total, problem.size - 2, alpha, beta, max(total, 1))
    names = ["native"]
    if from_library and setup.library and not inter:
        of_library = library_algorithms.find_algorithms(setup.library, operation)
        usable = [a for a in of_library if a.is_selectable and a.runs_on(problem.size)]
        names += [f"native:{a.name}" for a in usable if not a.catalogue_name]
    for a in find_all(operation, intercommunicator=inter):
        parameters = parse_parameters(a)
        if "late" in parameters:
            names.append(f"{a.name}:late={late}")
        elif "block_size" in parameters:
            blocks = sorted({best, *(b for b in BLOCKS if b < total)})
            names += [f"{a.name}:block_size={b}" for b in blocks]
        else:
            names.append(a.name)
    return names


def contest_loops(
    setup: Setup,
    native: Case,
    *,
    computation_ns: int = 0,
    phases: tuple[Phase, ...] = (),
    from_library: bool = False,
    robust: bool = False,
) -> list[Loop]:
    """Return the loops of a contest; `robust` adds a loop of robust beside native after auto."""
    fixed = max(setup.laps // FIXED_SHARE, LEAST_FIXED)
    late = phases[0].late_ns if phases else (0,)
    late_rank, labels = late.index(max(late)), native.labels
    choices = candidates(setup, native.operation, native.problem, late_rank, from_library)
    rivals = tuple(replace(native, choice=choice) for choice in choices)
    auto, second = ((replace(native, choice=selector), native) for selector in (AUTO, ROBUST))
    # The choices before auto have the first phase's arrivals, later choices the last phase's.
    first, last = (tuple(Phase(0, p.late_ns) for p in part) for part in (phases[:1], phases[-1:]))
    laps = max(setup.laps, QUICK_ROBUST_LAPS if setup.options.quick else ROBUST_LAPS)
    loops = [
        Loop(labels | {"part": BEFORE}, rivals[::-1], fixed, computation_ns, first),
        Loop(labels | {"part": AUTO}, auto, setup.laps, computation_ns, phases, alternating=ROW),
        Loop(labels | {"part": ROBUST}, second, laps, computation_ns, phases, alternating=ROW),
        Loop(labels | {"part": "after"}, rivals, fixed, computation_ns, last),
    ]
    return [loop for loop in loops if robust or loop.labels["part"] != ROBUST]


@dataclass(frozen=True)
class Contest:
    """Results of one contest."""

    before: LoopTimes
    auto: LoopTimes
    after: LoopTimes
    selection: Behaviour
    robust: LoopTimes | None = None
    robust_selection: Behaviour = field(default_factory=Behaviour)

    @property
    def labels(self) -> dict[str, Any]:
        """The contest's labels."""
        return self.before.loop.cases[0].labels

    @property
    def operation(self) -> str:
        """The operation."""
        return self.before.loop.cases[0].operation

    @property
    def arrivals_change(self) -> bool:
        """True if the arrivals change during the selector's run."""
        return len(self.auto.loop.phases) > 1

    def fixed(self, choice: str, measure: Measure, *, only_after: bool = False) -> Values:
        """Return all measured values of a fixed choice."""
        loops = [self.after] if only_after else [self.before, self.after]
        parts = [_measure(looped, choice, measure) for looped in loops]
        return np.concatenate(parts)

    def values(self, choice: str, measure: Measure, *, chosen: bool = False) -> Values:
        """Return a choice's values; `chosen`: only those after the selector's final choice."""
        if not self._alternates(choice):
            return self.fixed(choice, measure, only_after=chosen and self.arrivals_change)
        values = _measure(self.auto, choice, measure)
        return values[self.chosen_instances] if chosen else values

    def _alternates(self, choice: str) -> bool:
        return self.auto.case_index(choice) >= 0

    @property
    def chosen_instances(self) -> slice:
        """The selector's instances after probing, and after the last change of the arrivals."""
        loop = self.auto.loop
        chosen = self.selection.chosen_instances(loop.laps)
        change = max((phase.since for phase in loop.phases), default=0)
        return slice(max(chosen.start, change), chosen.stop)

    @cached_property
    def medians(self) -> dict[str, IntervalEstimate]:
        """Median score of each fixed choice in ns, the best first, under the last arrivals."""
        choices = [case.choice for case in self.after.loop.cases]
        scores = {c: self.fixed(c, score_ns, only_after=self.arrivals_change) for c in choices}
        medians = {choice: median_interval(values) for choice, values in scores.items()}
        return dict(sorted(medians.items(), key=lambda item: item[1]))

    @property
    def best(self) -> str:
        """The fixed choice with the lowest median score."""
        return next(iter(self.medians))

    @cached_property
    def over_best(self) -> IntervalEstimate:
        """Scores of auto's final choice over the best choice's, by medians; slow, so cached."""
        auto, best = (self.values(c, score_ns, chosen=True) for c in (AUTO, self.best))
        return ratio_interval(auto, best, row=ROW, paired=self._alternates(self.best))

    @cached_property
    def whole_run(self) -> IntervalEstimate:
        """`against` of the library's own choice, by scores."""
        return self.against("native", score_ns)

    def against(self, choice: str, measure: Measure) -> IntervalEstimate:
        """Return a fixed choice over auto, for the whole run with probing; above 1, auto wins."""
        # If the arrivals change, the fixed instances of both phases have equal weight.
        rival, auto = (self.values(c, measure) for c in (choice, AUTO))
        paired = self._alternates(choice)
        return ratio_interval(rival, auto, np.mean, ROW, paired=paired)

    def robust_values(self, choice: str, measure: Measure) -> Values:
        """Return the values of robust, or of native beside it, after robust's last probe."""
        if self.robust is None:
            return np.zeros(0)
        chosen = self.robust_selection.chosen_instances(self.robust.loop.laps)
        return _measure(self.robust, choice, measure)[chosen]

    @cached_property
    def over_robust(self) -> IntervalEstimate:
        """Scores of auto over robust after probing, each relative to native beside it."""
        auto, native = (self.values(name, score_ns, chosen=True) for name in (AUTO, "native"))
        robust, rival = (self.robust_values(name, score_ns) for name in (ROBUST, "native"))
        ratios = (auto / np.median(native), robust / np.median(rival))
        return ratio_interval(*ratios, row=ROW)


def _measure(looped: LoopTimes, choice: str, measure: Measure) -> Values:
    """Return the values of a choice's instances in a loop, none if it did not run."""
    i = looped.case_index(choice)
    if i < 0:
        return np.zeros(0)
    return measure(looped.loop.cases[i], looped.arrivals[i], looped.exits[i])


def contests(results: Sequence[LoopTimes], selections: Sequence[Behaviour]) -> list[Contest]:
    """Return the contests of loops, in the order in which `contest_loops` made them."""
    compared: list[Contest] = []
    pairs = list(zip(results, selections, strict=True))
    starts = [i for i, looped in enumerate(results) if looped.loop.labels.get("part") == BEFORE]
    for first, end in pairwise([*starts, len(pairs)]):
        before, auto, *middle, after = pairs[first:end]
        robust = middle[0] if middle else (None, Behaviour())
        compared.append(Contest(before[0], auto[0], after[0], auto[1], *robust))
    return compared


def medians_text(contest: Contest) -> str:
    """Return the median scores of all fixed choices, the best first."""
    texts = {n: format_within(ns / 1e6, ns.width / 1e6) for n, ns in contest.medians.items()}
    return ", ".join(f"{n.replace('block_size=', '')} {ms}" for n, ms in texts.items())
