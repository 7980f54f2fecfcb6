"""Accuracy of the simulator: predicted and measured times of all algorithms of the catalogue.

Every algorithm runs with balanced arrivals, and with each rank late by the time of 0 to MAX_IF - 1
messages. The simulator predicts the same laps twice: with the measured message times alone
(`plain`), and also with the measured transport: eager limit, copies of unexpected messages, and
messages that meet at a port. Times are scores: the mean over ranks of exit minus the earliest time
that the operation allows. So waiting for a late rank, which any model predicts, does not count.

A row is an algorithm at one size and MAX_IF, with the predicted times over the measured time. Below
the table, errors are medians over algorithms, relative to the measured time. Intervals have 95 %.
Rank correlations are Spearman's, of the algorithms of an operation at one size and MAX_IF, if there
are at least three. That of alternate repetitions shows how far noise and ties permit an order.
Pairs of algorithms are clear if their measured times differ by more than 5 %.
`regret` is the measured time of the algorithm that is predicted to be the fastest, over that of the
fastest. `run --switch auto` measures every algorithm that is predicted to take at most twice the
time of the fastest, so the last counts tell how often the fastest algorithm is among these, and how
many they are.

A block, or each rank's share of a vector, has `bytes` bytes. Barriers have no size, so that they
are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.bench.harness.calibration import REMEDY
from mpiprof.bench.harness.case import Case
from mpiprof.bench.harness.intervals import Estimate, estimate_quotient, median_interval
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.simulated_cases import simulate_case
from mpiprof.bench.harness.study import (
    Report,
    Result,
    Row,
    Setup,
    Values,
    at_least,
    at_most,
    estimate_mean,
    group_results,
    list_columns,
)
from mpiprof.bench.studies.contest import candidates
from mpiprof.errors import MpiprofError
from mpiprof.model.distributions import decreasing_counts
from mpiprof.model.schedule import Problem
from mpiprof.model.variant import Variant

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
    smallest = min(list_sizes(setup.options))
    for part in setup.options.only or PARTS:
        for size in list_sizes(setup.options):
            problem = make_problem(part, setup.ranks, size)
            for choice in candidates(setup, part.partition(" ")[0], problem):
                block = Variant.parse(choice).set_parameters(problem).block_size
                smallest = min(smallest, block or smallest)
    return smallest


def make_cases(setup: Setup) -> list[Case]:
    """Return the cases of all operations, sizes, factors and algorithms.

    Raises MpiprofError if the message times are not usable, or have no transport, because all
    predictions depend on them.
    """
    if setup.fault:
        raise MpiprofError(f"message times are not usable: {setup.fault}: {REMEDY}")
    if not setup.machine.has_transport:
        remedy = "measure it with `calibrate -o FILE`, and pass --machine FILE"
        raise MpiprofError(f"message times have no transport, which predictions require: {remedy}")
    options = setup.options
    cases = []
    for part in options.only or PARTS:
        operation, between = part.partition(" ")[0], part == BETWEEN_GROUPS
        members = f"{setup.ranks // 2}+{setup.ranks // 2}" if between else "world"
        for size in list_sizes(options):
            problem = make_problem(part, setup.ranks, size)
            choices = candidates(setup, operation, problem)
            message = int(setup.machine.alpha + size * setup.machine.beta)
            for most in MOST:
                for choice in [c for c in choices if c != "native"]:
                    values = (part, size, most, choice)
                    labels = dict(zip((*LABELS, "algorithm"), values, strict=True))
                    late = (most, message)
                    cases.append(Case(labels, operation, choice, problem, members, arrivals=late))
    return cases


# ---- predictions


@dataclass(frozen=True)
class Comparison:
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
    def regret(self) -> Estimate:
        """Measured time of the algorithm predicted to be the fastest, over that of the fastest."""
        chosen, fastest = int(self.predicted.argmin()), int(self.measured.argmin())
        if chosen == fastest:
            return Estimate(1.0, width=0)
        widths = np.zeros(len(self.measured)) if self.widths is None else self.widths
        times = (Estimate(self.measured[i], width=widths[i]) for i in (chosen, fastest))
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


def make_report(results: Sequence[Result], setup: Setup) -> Report:
    """Return a row for each case, and the accuracy of both models by operation and in all."""
    models = {"plain": replace(setup, machine=setup.machine.without_transport())}
    models["transport"] = setup
    rows: list[Row] = []
    groups: list[tuple[str, dict[str, Comparison]]] = []
    for group in group_results(results, LABELS):
        estimates = [_estimate_score(r.score) for r in group]
        measured, widths = np.array(estimates), np.array([e.width for e in estimates])
        predicted = {
            name: np.array([float(simulate_case(r.case, model).score.mean()) for r in group])
            for name, model in models.items()
        }
        for i, r in enumerate(group):
            row = r.case.labels | {"measured ms": estimates[i].scale(1e-6)}
            exact = {f"{name} / measured": Estimate(p[i], width=0) for name, p in predicted.items()}
            rows.append(row | {n: estimate_quotient(p, estimates[i]) for n, p in exact.items()})
        compared = {
            name: Comparison(measured, times, widths, _divide_laps(group))
            for name, times in predicted.items()
        }
        groups.append((group[0].case.labels["operation"], compared))
    notes = [
        "\n".join(
            summarize(part, name, [c[name] for of, c in groups if part in (of, ALL)])
            for name in models
        )
        for part in (*dict.fromkeys(of for of, _ in groups), ALL)
    ]
    agreements = [a for a in (c["plain"].agreement for _, c in groups) if not np.isnan(a)]
    if agreements:
        middle = _format(median_interval(np.array(agreements)))
        notes[-1] += f"\n{ALL}: median rank correlation of alternate repetitions {middle}"
    return Report(list_columns(rows), rows, notes)


def _divide_laps(group: Sequence[Result]) -> tuple[Values, Values] | None:
    """Return the mean times of alternate repetitions; None if one is without repetitions."""
    if min(len(r.score) for r in group) < 2:
        return None
    first, second = (np.array([r.score[half::2].mean() for r in group]) for half in (0, 1))
    return first, second


def _estimate_score(score: Values) -> Estimate:
    """Return the mean over laps; a single lap is simulated, and exact."""
    return estimate_mean(score) if len(score) > 1 else Estimate(score.mean(), width=0)


def summarize(part: str, model: str, comparisons: Sequence[Comparison]) -> str:
    """Return the medians of a model over groups; for all operations, also the requirements."""
    error = median_interval(np.concatenate([c.errors for c in comparisons]))
    correlations = [c.correlation for c in comparisons if not np.isnan(c.correlation)]
    regrets = [c.regret for c in comparisons]
    judge = _judge if part == ALL else lambda *_: ""
    text = f"{part}, {model}: median error {_format(error.scale(100), ' %')}{judge('error', error)}"
    if correlations:
        middle = median_interval(np.array(correlations))
        text += f", median rank correlation {_format(middle)}{judge('correlation', middle)}, "
        text += f"at least 0.9 in {sum(c >= 0.9 for c in correlations)} of {len(correlations)}"
    pairs, right = map(sum, zip(*(c.order for c in comparisons), strict=True))
    text += f"; {right} of {pairs} clear pairs in their order" if pairs else ""
    text += f"; mean regret {_format(average_regret(regrets))}, worst {max(regrets)}"
    probed, found = map(sum, zip(*(c.probed for c in comparisons), strict=True))
    known = sum(len(c.measured) for c in comparisons)
    text += f"; `auto` measures {probed} of {known} algorithms, "
    return f"{text}the fastest in {found} of {len(comparisons)} groups"


def average_regret(regrets: Sequence[Estimate]) -> Estimate:
    """Return the geometric mean with its interval over groups."""
    if len(regrets) == 1:
        return regrets[0]
    logarithm = estimate_mean(np.log(np.array(regrets)))
    return Estimate(*(float(np.exp(x)) for x in (logarithm, logarithm.low, logarithm.high)))


def _format(value: Estimate, unit: str = "") -> str:
    """Return a value with the digits that its interval allows, and the interval."""
    text = str(value) if value.interval_text else str(round(float(value), 4))
    return f"{text}{unit}" + (f" ({value.interval_text})" if value.interval_text else "")


def _judge(name: str, value: float) -> str:
    verdict = REQUIRED[name].judge(value)
    return f" (asked {verdict['asked']}: {verdict['holds']})"
