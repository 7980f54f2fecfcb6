"""Accuracy of the simulator: predicted and measured times of all algorithms of the catalogue.

Every algorithm runs with balanced arrivals, and with each rank late by the time of 0 to MAX_IF - 1
messages. The simulator predicts the same laps twice: with the measured message times alone
(`plain`), and also with the measured transport. Times are scores, which exclude waiting for a late
rank, because any model predicts that.

Below the table, errors are medians over algorithms, relative to the measured time. Rank
correlations are Spearman's, of at least three algorithms of an operation at one size and MAX_IF.
That of alternate repetitions shows how far noise and ties permit an order. Pairs of algorithms are
clear if their measured times differ by more than 5 %. `regret` is the measured time of the
algorithm that is predicted to be the fastest, over that of the fastest. The last counts tell how
often the fastest algorithm is among those that `run --switch auto` measures.

A block, or each rank's share of a vector, has `bytes` bytes. Barriers have no size, so that they
are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from mpiprof.collectives.distributions import decreasing_counts
from mpiprof.collectives.papers.harness.case import Case, Options
from mpiprof.collectives.papers.harness.intervals import (
    IntervalEstimate,
    estimate_quotient,
    median_interval,
)
from mpiprof.collectives.papers.harness.message_times import REMEDY
from mpiprof.collectives.papers.harness.simulated_cases import simulate_case
from mpiprof.collectives.papers.harness.study import (
    CaseResult,
    Report,
    Row,
    Setup,
    Values,
    at_least,
    at_most,
    estimate_mean,
    group_results,
    list_columns,
)
from mpiprof.collectives.papers.studies.contest import candidates
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.variant import Variant
from mpiprof.errors import MpiprofError

TITLE = "Accuracy of the simulator"
LAPS = 5
QUICK_LAPS = 3
SIZES = (4 << 10, 16 << 10, 64 << 10)
MOST = (1, 5, 17)  # MAX_IF
VECTORS = ("bcast", "reduce", "allreduce")
BLOCKS = ("allgather", "alltoall", "gather", "scatter", "reduce_scatter_block")
IRREGULAR = ("allgatherv", "alltoallv", "gatherv", "scatterv", "reduce_scatter")
BETWEEN_GROUPS = "allgather between groups"
PARTS = (*VECTORS, *BLOCKS, *IRREGULAR, BETWEEN_GROUPS)
LABELS = ("operation", "bytes", "MAX_IF")
ALL = "all operations"
MIN_RANKED = 3  # algorithms
MESSAGES_IN_SERIES = True  # inside an algorithm, the messages of a port follow each other
CLEAR, TIE = 0.05, 1e-3  # relative differences of measured times, and of predicted ones
PREDICTION_DOUBT = 2.0  # GUESS of mpiprof/core/selection/online/candidate_set.c
REQUIRED = {"error": at_most(0.1), "correlation": at_least(0.9)}


def make_problem(part: str, ranks: int, size: int) -> Problem:
    """Return the problem of a part, with `size` bytes per rank."""
    if part == BETWEEN_GROUPS:
        half = ranks // 2
        return Problem(half, size, remote_size=half, remote_bytes=size)
    unit = 8 if part in ("reduce", "allreduce", "reduce_scatter", "reduce_scatter_block") else 1
    if part in VECTORS:
        return Problem(ranks, size * ranks, unit=unit)
    if part in BLOCKS:
        return Problem(ranks, size, unit=unit)
    counts = tuple(count // unit * unit for count in decreasing_counts(size, ranks))
    if part == "alltoallv":
        return Problem(ranks, rows=(counts,) * ranks)
    return Problem(ranks, counts=counts, unit=unit)


def list_sizes(options: Options) -> tuple[int, ...]:
    """Return the sizes of the study in bytes."""
    return options.sizes or (SIZES[1:2] if options.quick else SIZES)


def find_smallest_message(setup: Setup) -> int:
    """Return the bytes of the shortest blocks of the algorithms.

    Barriers inside algorithms, and the last of unequal shares, are shorter. They take a small part
    of the time of an algorithm.
    """
    sizes = list_sizes(setup.options)
    smallest = min(sizes)
    for part, size in product(setup.options.only or PARTS, sizes):
        problem = make_problem(part, setup.ranks, size)
        for choice in candidates(setup, part.partition(" ")[0], problem):
            block = Variant.parse(choice).set_parameters(problem).block_size
            smallest = min(smallest, block or smallest)
    return smallest


def make_cases(setup: Setup) -> list[Case]:
    """Return all cases; raises MpiprofError without the message times that predictions require."""
    if setup.fault:
        raise MpiprofError(f"message times are not usable: {setup.fault}: {REMEDY}")
    if not setup.machine.has_transport:
        remedy = "measure it with `calibrate -o FILE`, and pass --machine FILE"
        raise MpiprofError(f"message times have no transport, which predictions require: {remedy}")
    cases = []
    half = setup.ranks // 2
    for part, size in product(setup.options.only or PARTS, list_sizes(setup.options)):
        operation, problem = part.partition(" ")[0], make_problem(part, setup.ranks, size)
        members = f"{half}+{half}" if part == BETWEEN_GROUPS else "world"
        choices = [c for c in candidates(setup, operation, problem) if c != "native"]
        for max_factor, choice in product(MOST, choices):
            values = (part, size, max_factor, choice)
            labels = dict(zip((*LABELS, "algorithm"), values, strict=True))
            late = (max_factor, int(setup.machine.alpha + size * setup.machine.beta))
            cases.append(Case(labels, operation, choice, problem, members, arrivals=late))
    return cases


# ---- predictions


@dataclass(frozen=True)
class ModelComparison:
    """Measured and predicted times of the algorithms of a group, in ns."""

    measured: Values
    predicted: Values
    widths: Values | None = None  # of the intervals of `measured`; None if these are exact
    halves: tuple[Values, Values] | None = None  # of the repetitions; None if all are equal

    @property
    def errors(self) -> Values:
        """Relative errors of the predictions."""
        return np.abs(self.predicted / self.measured - 1)

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation; NaN for few algorithms."""
        return _correlate_ranks(self.measured, self.predicted)

    @property
    def agreement(self) -> float:
        """Rank correlation of two halves of the repetitions, which a prediction hardly exceeds."""
        return np.nan if self.halves is None else _correlate_ranks(*self.halves)

    @property
    def order(self) -> tuple[int, int]:
        """Pairs that differ by more than 5 %, and how many of them are predicted in their order."""
        first, second = np.triu_indices(len(self.measured), 1)
        ratio = self.measured[first] / self.measured[second]
        clear = np.abs(np.log(ratio)) > np.log(1 + CLEAR)
        predicted = self.predicted[first] / self.predicted[second]
        right = (ratio > 1) == (predicted > 1 + TIE)
        right &= (ratio < 1) == (predicted < 1 - TIE)
        return int(clear.sum()), int((clear & right).sum())

    @property
    def regret(self) -> IntervalEstimate:
        """Measured time of the algorithm predicted to be the fastest, over that of the fastest."""
        chosen, fastest = int(self.predicted.argmin()), int(self.measured.argmin())
        if chosen == fastest:
            return IntervalEstimate(1.0, width=0)
        widths = np.zeros(len(self.measured)) if self.widths is None else self.widths
        times = (IntervalEstimate(self.measured[i], width=widths[i]) for i in (chosen, fastest))
        return estimate_quotient(*times)

    @property
    def probed(self) -> tuple[int, bool]:
        """Number of algorithms that `auto` measures, and whether the fastest is one of them."""
        probed = self.predicted <= PREDICTION_DOUBT * self.predicted.min()
        return int(probed.sum()), bool(probed[self.measured.argmin()])


def _correlate_ranks(first: Values, second: Values) -> float:
    if len(first) < MIN_RANKED:
        return np.nan
    import pandas as pd

    return float(pd.Series(first).rank().corr(pd.Series(second).rank()))


def make_report(results: Sequence[CaseResult], setup: Setup) -> Report:
    """Return a row for each case, and the accuracy of both models by operation and in all."""
    models = {"plain": replace(setup, machine=setup.machine.without_transport())}
    models["transport"] = setup
    rows: list[Row] = []
    groups: list[tuple[str, dict[str, ModelComparison]]] = []
    for group in group_results(results, LABELS):
        estimates = [_estimate_score(r.score) for r in group]
        measured, widths = np.array(estimates), np.array([e.width for e in estimates])
        table = [
            r.case.labels | {"measured ms": e.scale(1e-6)}
            for r, e in zip(group, estimates, strict=True)
        ]
        compared = {}
        for name, model in models.items():
            times = [float(simulate_case(r.case, model).score.mean()) for r in group]
            for row, ns, estimate in zip(table, times, estimates, strict=True):
                exact = IntervalEstimate(ns, width=0)
                row[f"{name} / measured"] = estimate_quotient(exact, estimate)
            halves = _divide_laps(group)
            compared[name] = ModelComparison(measured, np.array(times), widths, halves)
        rows += table
        groups.append((group[0].case.labels["operation"], compared))
    notes = []
    for part in (*dict.fromkeys(group_part for group_part, _ in groups), ALL):
        several = [compared for group_part, compared in groups if part in (group_part, ALL)]
        notes.append("\n".join(summarize(part, n, [c[n] for c in several]) for n in models))
    agreements = [a for a in (c["plain"].agreement for _, c in groups) if not np.isnan(a)]
    if agreements:
        middle = _format(median_interval(np.array(agreements)))
        notes[-1] += f"\n{ALL}: median rank correlation of alternate repetitions {middle}"
    return Report(list_columns(rows), rows, notes)


def _divide_laps(group: Sequence[CaseResult]) -> tuple[Values, Values] | None:
    """Return the mean times of alternate repetitions; None if one is without repetitions."""
    if min(len(r.score) for r in group) < 2:
        return None
    first, second = (np.array([r.score[half::2].mean() for r in group]) for half in (0, 1))
    return first, second


def _estimate_score(score: Values) -> IntervalEstimate:
    """Return the mean over laps; a single lap is simulated, and exact."""
    return estimate_mean(score) if len(score) > 1 else IntervalEstimate(score.mean(), width=0)


def summarize(part: str, model: str, comparisons: Sequence[ModelComparison]) -> str:
    """Return the medians of a model over groups; for all operations, also the requirements."""
    error = median_interval(np.concatenate([c.errors for c in comparisons]))
    correlations = [c.correlation for c in comparisons if not np.isnan(c.correlation)]
    regrets = [c.regret for c in comparisons]

    def judge(name: str, value: float) -> str:
        verdict = REQUIRED[name].judge(value)
        return f" (asked {verdict['asked']}: {verdict['holds']})" if part == ALL else ""

    text = f"{part}, {model}: median error {_format(error.scale(100), ' %')}{judge('error', error)}"
    if correlations:
        middle = median_interval(np.array(correlations))
        text += f", median rank correlation {_format(middle)}{judge('correlation', middle)}, "
        text += f"at least 0.9 in {sum(c >= 0.9 for c in correlations)} of {len(correlations)}"
    pairs, right = map(sum, zip(*(c.order for c in comparisons), strict=True))
    text += f"; {right} of {pairs} clear pairs in their order" if pairs else ""
    text += f"; mean regret {_format(average_regret(regrets))}, worst {max(regrets)}"
    probed, fastest_count = map(sum, zip(*(c.probed for c in comparisons), strict=True))
    measured_count = sum(len(c.measured) for c in comparisons)
    text += f"; `auto` measures {probed} of {measured_count} algorithms, "
    return f"{text}the fastest in {fastest_count} of {len(comparisons)} groups"


def average_regret(regrets: Sequence[IntervalEstimate]) -> IntervalEstimate:
    """Return the geometric mean with its interval over groups."""
    if len(regrets) == 1:
        return regrets[0]
    logarithm = estimate_mean(np.log(np.array(regrets)))
    return IntervalEstimate(*(float(np.exp(x)) for x in (logarithm, logarithm.low, logarithm.high)))


def _format(value: IntervalEstimate, unit: str = "") -> str:
    """Return a value with the digits that its interval allows, and the interval."""
    text = str(value) if value.interval_text else str(round(float(value), 4))
    return f"{text}{unit}" + (f" ({value.interval_text})" if value.interval_text else "")
