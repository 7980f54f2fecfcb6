"""Change of the waiting for each cause between two groups of runs, beside that of their places.

The causes are the findings of the reports on the runs. Two findings have the same cause if its sort
is the same, and if they share a place and a rank. A run without a finding on a cause has no waiting
for it. Between single runs, the interval contains the waiting for a rank whose work varies as it
usually does from run to run (causes/run_variation.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.causes.finding import MIN_CERTAINTY, Finding
from mpiprof.causes.run_variation import compare_run_times, find_rank_variation, find_significant
from mpiprof.causes.time_changes import (
    LEVEL,
    MIN_SHARE,
    Key,
    PlaceChange,
    TimeChange,
    compare_places,
    is_whole,
    make_call_key,
    number_lines,
)
from mpiprof.trace import Trace
from mpiprof.trace.types import Float


@dataclass(frozen=True)
class CauseChange(TimeChange):
    """Waiting of all ranks for a cause before and after, mean of the runs.

    trace, finding: the first run after the change that names the cause, or before it if none does,
    and its finding. ..._saved_ns: run time that the run would save without the cause.
    """

    trace: Trace
    finding: Finding
    before_saved_ns: float
    after_saved_ns: float


@dataclass(frozen=True)
class LedgerChanges:
    """Changes between two groups of runs: time at each place, and waiting for each cause."""

    places: Sequence[PlaceChange] = ()
    causes: Sequence[CauseChange] = ()


NO_CHANGES = LedgerChanges()


@dataclass(frozen=True)
class _Identity:
    """A cause of a run; ranks: empty if the runs have different numbers of ranks."""

    sort: str
    ranks: frozenset[int]
    places: frozenset[Key]

    def matches(self, identity: _Identity) -> bool:
        """Return whether both are the same cause."""
        sets = (self.ranks, identity.ranks), (self.places, identity.places)
        return self.sort == identity.sort and all(a == b or a & b for a, b in sets)


def compare_ledgers(before: Sequence[Trace], after: Sequence[Trace]) -> LedgerChanges:
    """Return the changes of the times at each place, and of the waiting for each cause."""
    return LedgerChanges(compare_places(before, after), compare_causes(before, after))


def compare_causes(before: Sequence[Trace], after: Sequence[Trace]) -> list[CauseChange]:
    """Return the change of the waiting for each cause, the largest first.

    Returns an empty list if a run did not end, or has no causes because its calls are summed up.
    """
    runs = [*before, *after]
    if not before or not after or not all(map(_has_causes, runs)):
        return []
    noise = list(_find_noise(*runs)) if len(runs) == 2 else []
    process_ns = float(np.mean([trace.process_time_ns for trace in before]))
    changes, p_values = [], []
    for findings in _match_findings(before, after):
        first_costs, other_costs = _split_values(findings, "cost_ns", before, after)
        first_savings, other_savings = _split_values(findings, "saved_ns", before, after)
        test = compare_run_times(first_costs, other_costs, noise)
        run = min((run for run in findings if run >= len(before)), default=min(findings))
        change = CauseChange(
            before_ns=float(first_costs.mean()),
            after_ns=float(other_costs.mean()),
            interval_ns=test.interval_ns,
            is_certain=False,
            trace=runs[run],
            finding=findings[run],
            before_saved_ns=float(first_savings.mean()),
            after_saved_ns=float(other_savings.mean()),
        )
        is_sure = change.finding.certainty >= MIN_CERTAINTY
        is_notable = abs(change.change_ns) >= MIN_SHARE * process_ns
        changes.append(change)
        p_values.append(test.p if is_sure and is_notable else 1.0)
    certain = find_significant(np.array(p_values), LEVEL).tolist()
    marked = [
        replace(change, is_certain=is_certain)
        for change, is_certain in zip(changes, certain, strict=True)
    ]
    return sorted(marked, key=lambda change: -abs(change.change_ns))


def _has_causes(trace: Trace) -> bool:
    """Return whether a trace has the causes of a whole run."""
    return is_whole(trace) and trace.record != "summary" and not trace.ranks_without_records


def _match_findings(before: Sequence[Trace], after: Sequence[Trace]) -> list[dict[int, Finding]]:
    """Return the findings on each cause, by the number of the run."""
    runs = [*before, *after]
    has_equal_ranks = len({trace.ranks for trace in runs}) == 1
    numbers = number_lines([before, after])
    identities: list[_Identity] = []
    causes: list[dict[int, Finding]] = []
    for run, trace in enumerate(runs):
        for finding in trace.findings():
            places = _list_places(trace, finding, numbers[int(run >= len(before))])
            ranks = frozenset(finding.ranks if has_equal_ranks else ())
            identity = _Identity(finding.cause, ranks, frozenset(places))
            matching = (
                number
                for number, cause in enumerate(causes)
                if run not in cause and identity.matches(identities[number])
            )
            number = next(matching, len(causes))
            if number == len(causes):
                identities.append(identity)
                causes.append({})
            causes[number][run] = finding
    return causes


def _split_values(
    findings: Mapping[int, Finding], name: str, before: Sequence[Trace], after: Sequence[Trace]
) -> tuple[Float, Float]:
    """Return a field of the finding of each run, 0 without one, before and after the change."""
    runs = range(len(before) + len(after))
    values = np.array([getattr(findings.get(run), name, 0.0) for run in runs], np.float64)
    return values[: len(before)], values[len(before) :]


def _list_places(trace: Trace, finding: Finding, numbers: Mapping[Key, int]) -> Iterator[Key]:
    """Yield the places of the work of a finding, or its call sites if it has no work."""
    for place in finding.evidence.work:
        yield tuple(make_call_key(call, numbers) for call in (place.before, place.after))
    if not finding.evidence.work:
        rows = trace.callsites.loc[list(finding.callsites), ["operation", "sites"]]
        for operation, sites in rows.itertuples(index=False):
            for site in sites:
                yield (make_call_key({"operation": operation} | site, numbers),)


def _find_noise(*runs: Trace) -> Iterator[tuple[float, float]]:
    """Yield the variance of the waiting for one rank whose work varies, with its freedom."""
    works: list[Float] = [
        trace.derive("rank_times")["work_ns"].to_numpy(np.float64) for trace in runs
    ]
    variation = find_rank_variation([[work_ns] for work_ns in works], runs[0].ranks)
    for work_ns in works:
        yield (variation * float(work_ns.max()) * (len(work_ns) - 1)) ** 2, math.inf
