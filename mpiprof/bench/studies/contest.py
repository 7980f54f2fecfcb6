"""`auto` against the library and every fixed algorithm, in one run.

The fixed ones run before and after the selector's instances, as the machine drifts, the library's
own next to them; the best is the oracle. Ratios are those of scores: the mean over ranks of exit
minus the earliest that the operation allows, which waiting for a late rank is no part of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mpiprof import libraries
from mpiprof.bench.harness.case import AUTO, Case
from mpiprof.bench.harness.loop import Loop, Looped, Phase, elapsed_ns, score_ns, total_ns
from mpiprof.bench.harness.selector import Selection
from mpiprof.bench.harness.study import Setup, Values, ratio_interval
from mpiprof.model.catalogue import catalogue, parameters_of
from mpiprof.model.rounds import pipeline_block_size, ring_block_size
from mpiprof.model.schedule import Problem

BLOCKS = (8 << 10, 16 << 10)
FIXED_SHARE = 12  # of the selector's instances, a twelfth before and a twelfth after
LEAST_FIXED = 3
ROW = 20  # instances in which the machine is the same; over more it drifts
# What is asked of auto: after its probing so near the best fixed choice, found by so many probing
# instances at the median of the keys, and a whole run of 300 so near the library's own.
WITHIN = 1.01
PROBES = 10
LEAST_WHOLE = 0.99
Measure = Callable[[Case, Any, Any], Values]


def score(case: Case, arrivals: Any, exits: Any) -> Values:
    """Return each instance's score in ns."""
    return score_ns(case, arrivals, exits)


def after_last(_: Case, arrivals: Any, exits: Any) -> Values:
    """Return each instance's last exit minus its last arrival in ns."""
    return total_ns(arrivals, exits)


def elapsed(_: Case, arrivals: Any, exits: Any) -> Values:
    """Return each instance's mean time in the call in ns."""
    return elapsed_ns(arrivals, exits)


def candidates(
    setup: Setup, operation: str, problem: Problem, late: int = 0, own: bool = False
) -> list[str]:
    """Return native and all of ours, pipelines also with block sizes around the best.

    late: the rank that algorithms are told to be the last one. own: the library's own, too, of
    which we have none.
    """
    inter = problem.remote_size > 0
    alpha, beta = setup.machine.alpha, setup.machine.beta
    total = sum(problem.counts) or problem.bytes
    if problem.counts and not inter:
        best = ring_block_size(problem.counts, alpha, beta)
    else:
        best = pipeline_block_size(total, problem.size - 2, alpha, beta, max(total, 1))
    found = ["native"]
    if own and not inter:
        found += [
            f"native:{one.name}"
            for one in libraries.own(setup.library, operation)
            if setup.library and one.told and one.runs_on(problem.size) and not one.ours
        ]
    for a in catalogue():
        if a.operation != operation or a.intercommunicator != inter:
            continue
        known = parameters_of(a)
        if "late" in known:
            found.append(f"{a.name}:late={late}")
        elif "block_size" in known:
            blocks = sorted({best, *(b for b in BLOCKS if b < total)})
            found += [f"{a.name}:block_size={b}" for b in blocks]
        else:
            found.append(a.name)
    return found


def contest_loops(
    setup: Setup,
    labels: dict[str, Any],
    operation: str,
    problem: Problem,
    *,
    members: str = "world",
    computation_ns: int = 0,
    phases: tuple[Phase, ...] = (),
    own: bool = False,
) -> list[Loop]:
    """Return a contest: the fixed ones, auto in turns with the library's own, the fixed ones.

    Those before auto have the first phase's arrivals, those after it the last one's.
    """
    fixed = max(setup.laps // FIXED_SHARE, LEAST_FIXED)
    late = phases[0].late_ns if phases else (0,)
    choices = candidates(setup, operation, problem, late.index(max(late)), own)
    rivals = tuple(Case(labels, operation, c, problem, members) for c in choices)
    auto = tuple(Case(labels, operation, c, problem, members) for c in (AUTO, "native"))
    first, last = (tuple(Phase(0, p.late_ns) for p in part) for part in (phases[:1], phases[-1:]))
    return [
        Loop(labels | {"part": "before"}, rivals[::-1], fixed, computation_ns, first),
        Loop(labels | {"part": AUTO}, auto, setup.laps, computation_ns, phases, turns=ROW),
        Loop(labels | {"part": "after"}, rivals, fixed, computation_ns, last),
    ]


@dataclass(frozen=True)
class Contest:
    """What was measured of one contest."""

    before: Looped
    auto: Looped
    after: Looped
    selection: Selection

    @property
    def labels(self) -> dict[str, Any]:
        """What it is known by."""
        return self.before.loop.cases[0].labels

    @property
    def operation(self) -> str:
        """The operation."""
        return self.before.loop.cases[0].operation

    def fixed(self, choice: str, measure: Measure, *, only_after: bool = False) -> Values:
        """Return what a fixed choice took, of all its instances."""
        parts = [
            measure(case, looped.arrivals[i], looped.exits[i])
            for looped in ([self.after] if only_after else [self.before, self.after])
            for i, case in enumerate(looped.loop.cases)
            if case.choice == choice
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def own(self, measure: Measure, which: slice = slice(None)) -> Values:
        """Return what the selector's instances took."""
        return self._beside(AUTO, measure)[which]

    def rival(
        self,
        choice: str,
        measure: Measure,
        which: slice = slice(None),
        *,
        only_after: bool = False,
    ) -> Values:
        """Return what auto is compared with: the instances in turns with its own, else all."""
        if self._takes_turns(choice):
            return self._beside(choice, measure)[which]
        return self.fixed(choice, measure, only_after=only_after)

    def _takes_turns(self, choice: str) -> bool:
        return self.auto.index(choice) >= 0

    def _beside(self, choice: str, measure: Measure) -> Values:
        i = self.auto.index(choice)
        return measure(self.auto.loop.cases[i], self.auto.arrivals[i], self.auto.exits[i])

    @property
    def held(self) -> slice:
        """The selector's instances after probing, and after the last change of the arrivals."""
        loop = self.auto.loop
        held = self.selection.held(loop.laps)
        change = max((phase.since for phase in loop.phases), default=0)
        return slice(max(held.start, change), held.stop)

    def best(self, *, only_after: bool = False) -> str:
        """Return the fixed choice of the least median score."""
        names = [case.choice for case in self.after.loop.cases]
        return min(names, key=lambda c: np.median(self.fixed(c, score, only_after=only_after)))

    def against_best(self, *, only_after: bool = False) -> tuple[float, float, float]:
        """Return held over best, medians of scores, with its interval; below 1 auto is ahead."""
        best, own = self.best(only_after=only_after), self.own(score, self.held)
        rival = self.rival(best, score, self.held, only_after=only_after)
        return ratio_interval(own, rival, row=ROW, paired=self._takes_turns(best))

    @cached_property
    def over_best(self) -> tuple[float, float, float]:
        """`against_best` of all fixed instances, before and after; resampling takes a while."""
        return self.against_best()

    @cached_property
    def whole_run(self) -> tuple[float, float, float]:
        """The library's own scores over auto's, `against`."""
        return self.against("native", score)

    def against(self, choice: str, measure: Measure) -> tuple[float, float, float]:
        """Return a fixed choice over auto, the whole run with its probing; above 1 auto is ahead.

        Where the arrivals change on the way, both phases' fixed instances count alike.
        """
        rival, paired = self.rival(choice, measure), self._takes_turns(choice)
        return ratio_interval(rival, self.own(measure), np.mean, ROW, paired=paired)


def contests(results: Sequence[Looped], selections: Sequence[Selection]) -> list[Contest]:
    """Return the contests of loops in the order in which `contest_loops` made them."""
    parts = (results[::3], results[1::3], results[2::3], selections[1::3])
    return [Contest(*several) for several in zip(*parts, strict=True)]


def medians_text(contest: Contest, *, only_after: bool = False) -> str:
    """Return the median score of all fixed choices, the best first."""
    values = {
        case.choice: float(np.median(contest.fixed(case.choice, score, only_after=only_after)))
        / 1e6
        for case in contest.after.loop.cases
    }
    return ", ".join(
        f"{name.replace('block_size=', '')} {ms:.4g}"
        for name, ms in sorted(values.items(), key=lambda item: item[1])
    )
