"""Changes of a run that a user asks for, such as "rank 3 = median", and the run time with them.

    rank R = median       each interval of work of the rank becomes at most the median of the other
                          ranks' intervals between the same calls in the same step
    node N = median       the same for all ranks of a node, compared with the ranks of other nodes
    site S = balanced     the work of each rank before its n-th call at S in a step becomes the mean
                          of the ranks that make this call
    network = ideal       calls take no time beyond waiting for other ranks (POP's ideal network)
    finding N = removed   the run lacks the time whose saving the report's n-th finding states

A step ends when all ranks meet in a collective. In runs without such steps, the n-th intervals of
the ranks are compared. Several changes apply one after the other. The run is then replayed
(replay.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.delay_costs import Delays
from mpiprof.account.message_waits import RECORDED_NS
from mpiprof.account.recorded_calls import read_recorded_calls
from mpiprof.account.row_order import find_last_rows
from mpiprof.account.work_intervals import NOWHERE
from mpiprof.causes.cause import Removal, add_removals, join_removals, replay_without
from mpiprof.causes.run_steps import Steps
from mpiprof.causes.work_groups import WorkGroups, count_up
from mpiprof.errors import UsageError
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.trace.sites import describe_sites, format_site, matches_pattern
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

FORMS = (
    '"rank 3 = median", "node n07 = median", "site md.py:93 = balanced", "network = ideal" or '
    '"finding 1 = removed"'
)
CHANGE_OF_TARGET = {"rank": "median", "node": "median", "site": "balanced", "network": "ideal"}
CHANGE_OF_TARGET["finding"] = "removed"
PATTERN = re.compile(r"(rank|node|site|network|finding)\b\s*(.*?)\s*=\s*(\w+)", re.DOTALL)


@dataclass(frozen=True)
class Change:
    """One change: target (key of CHANGE_OF_TARGET) and the name of the rank, node or site."""

    target: str
    name: str

    def __str__(self) -> str:
        return f"{f'{self.target} {self.name}'.strip()} = {CHANGE_OF_TARGET[self.target]}"


@dataclass(frozen=True)
class Prediction:
    """Run time with some changes.

    run_ns, predicted_ns: run time as recorded and with the changes. work_ns: time that each rank
    works less, negative if it works more. calls_ns: time that its calls take less.
    """

    changes: tuple[Change, ...]
    run_ns: float
    predicted_ns: float
    work_ns: Float
    calls_ns: Float


@dataclass(frozen=True)
class RemovedTime:
    """Time in ns that changes remove: from the run, and from each rank's work and calls."""

    saved_ns: float
    work: Float
    calls: Float


def parse_change(text: str) -> Change:
    """Return a change as the user wrote it; raises UsageError if it has none of the FORMS."""
    match = PATTERN.fullmatch(text.strip())
    target, name, value = match.groups() if match else ("", "", "")
    if CHANGE_OF_TARGET.get(target) != value or (name == "") != (target == "network"):
        raise UsageError(f'--what-if "{text}": unknown change: use {FORMS}')
    return Change(target, name)


def predict_run(trace: Trace, changes: Sequence[Change]) -> Prediction:
    """Return the run time with some changes; raises UsageError for unknown ranks, nodes, sites."""
    if trace.record == "summary":
        raise UsageError("--what-if: a summary has no calls to replay: record events")
    of_findings = [_find_removal(trace, change) for change in changes if change.target == "finding"]
    other_changes = [change for change in changes if change.target != "finding"]
    remove = partial(remove_time, changes=other_changes, of_findings=join_removals(of_findings))
    removed = [remove(trace)] if fits_in_memory(trace) else trace.derive("in_windows")(remove)
    run_ns, saved = float(trace.run_ns), sum(window.saved_ns for window in removed)
    work, calls = (
        np.sum(columns, 0) for columns in ([r.work for r in removed], [r.calls for r in removed])
    )
    return Prediction(tuple(changes), run_ns, run_ns - saved, work, calls)


def remove_time(trace: Trace, changes: Sequence[Change], of_findings: Removal) -> RemovedTime:
    """Return the time that changes and findings remove from a run or a window of it.

    A window begins when all ranks meet. They are equally early there, so the run ends earlier by
    the sum over its windows.
    """
    delays: Delays = trace.derive("delays_found")
    work, transfers = _Work(trace, delays), Removal.nothing()
    of_work: list[Removal] = []
    if isinstance(trace, TraceWindow):
        is_before_end = of_findings.time_ns <= trace.end_ns
        of_findings = of_findings.take((of_findings.time_ns > trace.begin_ns) & is_before_end)
    for change in changes:
        if change.target == "network":
            transfers = _find_transfers(trace, delays)
        elif change.target == "site":
            of_work.append(work.balance(_find_sites(trace, change)))
        else:
            work.limit(_find_ranks(trace, change))
    ends = trace.derive("replay").find_ends(delays.intervals)
    limited = Removal(delays.intervals.rank, ends, work.removed).take(work.removed != 0)
    of_work.append(join_removals([limited, of_findings]))
    saving = replay_without(trace, add_removals([*of_work, transfers]))
    work_ns, calls_ns = (
        removal.sum_by_rank(trace.ranks) for removal in (add_removals(of_work), transfers)
    )
    return RemovedTime(saving.run_ns, work_ns, calls_ns)


class _Work:
    """Intervals of work and their lengths after the changes so far."""

    def __init__(self, trace: Trace, delays: Delays) -> None:
        self.trace, self.intervals, self.sites = trace, delays.intervals, delays.sites
        self.before = (self.intervals.end_ns - self.intervals.begin_ns).astype(np.float64)
        self.length = self.before.copy()
        self.steps: Steps | None = trace.derive("steps")
        self.calls = read_recorded_calls(trace)  # rank, enter, exit, site

    @property
    def removed(self) -> Float:
        """Return the time removed from each interval."""
        return self.before - self.length

    def limit(self, chosen: Bool) -> None:
        """Limit the intervals of some ranks to the median of the other ranks'."""
        groups: WorkGroups = self.trace.derive("work_groups")
        is_chosen_rank = chosen[self.intervals.rank]
        self.length, _ = groups.limit(self.length, is_chosen_rank, ~chosen)

    def balance(self, sites: Int) -> Removal:
        """Let all ranks work equally long before their n-th call at some sites in each step.

        Shortens intervals, and returns the removal of negative time of ranks that work longer.
        """
        interval, rank, time = self._find_work_before(sites)
        step = np.zeros(len(rank), np.int64) if self.steps is None else self.steps.find(time)
        length = np.where(interval >= 0, np.append(self.length, 0.0)[interval], 0.0)
        nth = count_up(step * self.trace.ranks + rank)
        group = np.unique(step * (nth.max(initial=0) + 1) + nth, return_inverse=True)[1]
        mean = (np.bincount(group, length) / np.maximum(np.bincount(group), 1))[group]
        self.length[interval[length > mean]] = mean[length > mean]
        is_longer = length < mean
        return Removal(rank[is_longer], time[is_longer], (length - mean)[is_longer])

    def _find_work_before(self, sites: Int) -> tuple[Int, Int, Int]:
        """Return the interval before each call at some sites (-1 if it is short), rank and time."""
        after = np.array([site for _, site in self.sites] or [NOWHERE], np.int64)
        interval = np.flatnonzero(np.isin(after, sites)[self.intervals.key])
        call = np.flatnonzero(np.isin(self.calls[3], sites))
        rank = np.concatenate([self.intervals.rank[interval], self.calls[0][call]])
        time = np.concatenate([self.intervals.end_ns[interval], self.calls[1][call]])
        interval = np.append(interval, np.full(len(call), -1))
        order = np.lexsort((interval < 0, time, rank))
        interval, rank, time = interval[order], rank[order], time[order]
        # A call that is recorded itself directly follows the interval that ends with it.
        same = np.zeros(len(rank), np.bool_)
        same[1:] = (rank[1:] == rank[:-1]) & (interval[:-1] >= 0) & (interval[1:] < 0)
        same[1:] &= time[1:] - time[:-1] <= RECORDED_NS
        return interval[~same], rank[~same], time[~same]


def _find_transfers(trace: Trace, delays: Delays) -> Removal:
    """Return the removal of the time in logged calls without waits."""
    rank, enter, exit_, _ = read_recorded_calls(trace)
    waits = delays.waits
    call = find_last_rows((rank, enter), waits.rank, waits.begin_ns, until=True)
    in_call = call >= 0
    waited = np.bincount(call[in_call], (waits.end_ns - waits.begin_ns)[in_call], len(rank))
    return Removal(rank.astype(np.int64), exit_, np.maximum(exit_ - enter - waited, 0.0))


def _find_ranks(trace: Trace, change: Change) -> Bool:
    """Return which ranks a change names; raises UsageError if there is no such rank or node."""
    chosen = np.zeros(trace.ranks, np.bool_)
    if change.target == "rank":
        if not change.name.isdecimal() or int(change.name) >= trace.ranks:
            fact = f'--what-if "{change}": no such rank'
            raise UsageError(f"{fact}: the ranks are 0 to {trace.ranks - 1}")
        chosen[int(change.name)] = True
        return chosen
    processes = trace.tables.processes.items()
    ranks_of_node = [
        rank for rank, process in processes if change.name in (process["node"], process["host"])
    ]
    if not ranks_of_node:
        hosts = dict.fromkeys(str(process["host"] or process["node"]) for _, process in processes)
        suggestion = suggest_names(change.name, hosts)
        raise UsageError(f'--what-if "{change}": no such node; {suggestion}')
    chosen[ranks_of_node] = True
    if chosen.all():
        raise UsageError(f'--what-if "{change}": all ranks are on this node: name ranks')
    return chosen


def _find_removal(trace: Trace, change: Change) -> Removal:
    """Return the removal of a finding; raises UsageError if there is none."""
    findings = trace.findings()
    numbers = [
        str(number) for number, finding in enumerate(findings, 1) if finding.removal is not None
    ]
    if change.name not in numbers:
        fact = f'--what-if "{change}": no such finding with a time that can be removed'
        raise UsageError(f"{fact}: such findings are {', '.join(numbers) or 'missing'}")
    removal: Removal = findings[int(change.name) - 1].removal
    return removal


def _find_sites(trace: Trace, change: Change) -> Int:
    """Return the sites that a change names; raises UsageError if there is none."""
    # Calls of several operations may have one call site.
    calls = dict.fromkeys(
        (shape.site, shape.operation) for shape in trace.tables.shapes if shape.site >= 0
    )
    described = describe_sites(trace.tables.sites, [[site for site, _ in calls]])[0]
    named_sites = {
        site
        for (site, operation), location in zip(calls, described, strict=True)
        if matches_pattern(operation, [location], change.name)
    }
    if not named_sites:
        suggestion = suggest_names(change.name, dict.fromkeys(map(format_site, described)))
        raise UsageError(f'--what-if "{change}": no such call site; {suggestion}')
    return np.array(sorted(named_sites), np.int64)
