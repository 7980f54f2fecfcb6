"""Delays of a run that does not fit in memory, from one window of it after the other.

The windows are independent (metrics/run_windows.py), so sums over them are those of the run, and
the workers of a data set can analyse them. Findings of the same ranks in several windows are one
finding of the run. A pattern is sought within a window only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.blamed_work import find_blamed_work
from mpiprof.diagnosis.delay_callsites import MAX_NAMED
from mpiprof.diagnosis.delay_costs import DELAY_SUMS, Delays, make_delay_table
from mpiprof.diagnosis.delay_findings import MIN_SECOND_SHARE, find_delay_findings
from mpiprof.diagnosis.finding import Finding, WaitSite
from mpiprof.diagnosis.window_map import Derived, map_windows
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.instance_rows import CallsiteKey
from mpiprof.metrics.message_callsite_sums import KEYS, find_located_waits, sum_located_waits
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int

MAX_BLAMED = 1 << 18  # intervals of work in a window, the costliest ones, that are blamed
STEP = "step"  # unit of findings whose numbers are known in the whole run


@dataclass(frozen=True)
class WindowDelays:
    """Delays of a window. The numbers in its findings are local to the window.

    callsites: by their numbers. table: as Trace.delays. waits: as sum_located_waits. meetings:
    number of times at which all ranks met, by call site. blamed: as find_blamed_work.
    """

    findings: list[Finding]
    callsites: list[CallsiteKey]
    table: pd.DataFrame
    waits: pd.DataFrame
    meetings: Int
    blamed: pd.DataFrame


def find_window_delays(trace: Trace, derived: Derived) -> list[WindowDelays]:
    """Return the delays of each window of a run; derived: functions of the tables of a trace."""
    return map_windows(trace, derived, _analyse_window)


def find_run_delay_findings(trace: Trace, callsite: int | None = None) -> list[Finding]:
    """Return the findings for all waits of the run, or those at one call site of collectives."""
    if fits_in_memory(trace):
        return find_delay_findings(trace, callsite)
    findings = join_findings(trace, trace.derive("window_delays"))
    return [one for one in findings if callsite is None or callsite in one.callsites]


def make_run_delay_table(trace: Trace) -> pd.DataFrame:
    """Return the table of delays of a run as delay_costs.make_delay_table does."""
    if fits_in_memory(trace):
        return make_delay_table(trace)
    tables = [of.table for of in trace.derive("window_delays")]
    joined = pd.concat(tables).groupby(["rank", "before_id", "after_id"], as_index=False)
    table: pd.DataFrame = joined[list(DELAY_SUMS)].sum()
    return table.sort_values("cost_ns", ascending=False, kind="stable", ignore_index=True)


def make_run_blamed_work(trace: Trace) -> pd.DataFrame:
    """Return the work that the findings of a run blame, as blamed_work.find_blamed_work does."""
    findings: list[Finding] = trace.derive("findings")
    if trace.record == "summary" or fits_in_memory(trace):
        return find_blamed_work(trace, findings)
    number_of = {_identify(finding): at for at, finding in enumerate(findings)}
    tables = []
    for of in trace.derive("window_delays"):
        numbers = np.array([number_of.get(_identify(one), -1) for one in of.findings], np.int64)
        joined = of.blamed.assign(finding=numbers[of.blamed["finding"].to_numpy()])
        tables.append(joined[joined["finding"] >= 0])
    work: pd.DataFrame = pd.concat(tables).sort_values("begin_ns", kind="stable", ignore_index=True)
    return work


def join_window_waits(trace: Trace) -> pd.DataFrame:
    """Return the sums of the waits for messages in each window, one table after the other."""
    windows: list[WindowDelays] = trace.derive("window_delays")
    return pd.concat([of.waits for of in windows], ignore_index=True)


def _analyse_window(window: TraceWindow) -> WindowDelays:
    """Return the delays of a window."""
    delays: Delays = window.derive("delays_found")
    _, first = np.unique(delays.meetings_of_all, return_index=True)
    findings = find_delay_findings(window)
    blamed = find_blamed_work(window, findings)
    return WindowDelays(
        findings,
        list(window.aggregate[1]),
        window.delays,
        sum_located_waits(find_located_waits(window)),
        np.bincount(delays.meeting_callsites[first], minlength=len(window.aggregate[1])),
        blamed if len(blamed) <= MAX_BLAMED else blamed.nlargest(MAX_BLAMED, "cost_ns"),
    )


def join_findings(trace: Trace, windows: Sequence[WindowDelays]) -> list[Finding]:
    """Return the findings of a run from those of its windows."""
    if len(windows) == 1:
        return windows[0].findings
    groups: dict[Any, list[tuple[int, Finding]]] = {}
    for number, finding in enumerate_findings(trace, windows):
        groups.setdefault(_identify(finding), []).append((number, finding))
    joined = [_join(trace, len(windows), parts) for parts in groups.values()]
    # As in the whole run, small remains of large delays are no findings.
    least = MIN_SECOND_SHARE * max((one.cost_ns for one in joined), default=0)
    return [one for one in joined if one.cost_ns >= least]


def _identify(finding: Finding) -> tuple[Any, ...]:
    """Return the properties that are equal in all windows in which a fault is found."""
    of = finding.cause, frozenset(finding.ranks), finding.node, finding.period
    return *of, *(finding.evidence.get(name) for name in ("each", "unit", "step"))


def enumerate_findings(
    trace: Trace, windows: Sequence[WindowDelays]
) -> Iterator[tuple[int, Finding]]:
    """Yield the number of a window and each of its findings, with numbers of the whole run."""
    numbers = trace.aggregate[1]
    meetings = np.zeros((len(windows) + 1, len(numbers)), np.int64)  # before each window
    for at, of in enumerate(windows):
        known = [numbers[key] for key in of.callsites]
        meetings[at + 1] = meetings[at]
        meetings[at + 1, known] += of.meetings
        for finding in of.findings:
            evidence = dict(finding.evidence)
            main = evidence["mainly_at"]
            evidence["mainly_at"] = known[main] if isinstance(main, int) else main
            callsites = tuple(known[number] for number in finding.callsites)
            waits_at = tuple(
                replace(at, callsite=known[at.callsite]) if isinstance(at.callsite, int) else at
                for at in finding.waits_at
            )
            renumbered = replace(finding, callsites=callsites, waits_at=waits_at, evidence=evidence)
            if "spans" in evidence:
                steps = evidence["steps_of"] = [known[number] for number in evidence["steps_of"]]
                counts = meetings[:, steps[0]] if steps else meetings.sum(1)
                renumbered = _shift_numbers(renumbered, int(counts[at]))
            yield at, renumbered


def _shift_numbers(finding: Finding, by: int) -> Finding:
    """Return a finding with numbers of steps that count from the begin of the run.

    The number of earlier repetitions is unknown, so numbers of repetitions are left out.
    """
    evidence = dict(finding.evidence)
    if evidence["unit"] != STEP:
        evidence |= {"spans": [], "levels": []}
        return replace(finding, first_instance=None, last_instance=None, evidence=evidence)
    for name in ("spans", "levels"):
        evidence[name] = [[first + by, last + by, *more] for first, last, *more in evidence[name]]
    evidence["recorded"] = [number + by for number in evidence["recorded"]]
    if finding.period:
        moved = ((offset + by) % finding.period for offset in evidence["offsets"])
        evidence["offsets"] = sorted(moved)
    first, last = finding.first_instance, finding.last_instance
    assert first is not None and last is not None
    return replace(finding, first_instance=first + by, last_instance=last + by, evidence=evidence)


def _join(trace: Trace, windows: int, parts: Sequence[tuple[int, Finding]]) -> Finding:
    """Return one finding from those of several windows."""
    findings = [finding for _, finding in parts]
    main = max(findings, key=lambda one: one.cost_ns)
    cost = sum(one.cost_ns for one in findings)
    callsites = tuple(
        dict.fromkeys(number for one in (main, *findings) for number in one.callsites)
    )
    joined = replace(
        main,
        cost_ns=cost,
        share=cost / max(trace.process_time_ns, 1),
        saved_ns=sum(one.saved_ns for one in findings),
        callsites=callsites,
        waits_at=tuple(_join_sites(trace, [at for one in findings for at in one.waits_at])),
        certainty=max(one.certainty for one in findings),
    )
    if "spans" not in main.evidence:
        return joined
    evidence = dict(main.evidence)
    for name in ("late_instances", "instances"):
        evidence[name] = sum(one.evidence[name] for one in findings)
    firsts = [one.first_instance for one in findings if one.first_instance is not None]
    lasts = [one.last_instance for one in findings if one.last_instance is not None]
    if firsts:
        in_all = len(parts) == windows
        spans = list(_join_spans(one.evidence for one in findings))
        recorded = [findings[0].evidence["recorded"][0], findings[-1].evidence["recorded"][1]]
        evidence |= {"recorded": recorded, "spans": [] if in_all and spans == [recorded] else spans}
    grows = [one.evidence["grows"] for one in findings]
    if len(parts) > 1:
        same = all(grows)
        evidence |= {"levels": [], "grows": [grows[0][0], grows[-1][1]] if same else None}
    first, last = min(firsts, default=None), max(lasts, default=None)
    return replace(joined, first_instance=first, last_instance=last, evidence=evidence)


def _join_sites(trace: Trace, waits_at: Sequence[WaitSite]) -> Iterator[WaitSite]:
    """Yield the call sites at which findings cause waiting, the costliest first."""
    sums: dict[int | tuple[str, int], float] = {}
    for at in waits_at:
        sums[at.callsite] = sums.get(at.callsite, 0.0) + at.wait_ns
    of_messages = trace.derive("window_waits").groupby(KEYS, observed=True)["wait_ns"].sum()
    for callsite, wait_ns in sorted(sums.items(), key=lambda pair: -pair[1])[:MAX_NAMED]:
        if isinstance(callsite, int):
            whole = float(trace.callsites["total_wait_ns"].iloc[callsite])
        else:
            whole = float(of_messages.get(callsite, wait_ns))
        yield WaitSite(callsite, wait_ns, min(wait_ns / max(whole, 1.0), 1.0))


def _join_spans(parts: Iterable[Any]) -> Iterator[list[int]]:
    """Yield the runs of steps of several windows in order; adjacent ones are one run."""
    run: list[int] = []
    for evidence in parts:
        for first, last in evidence["spans"] or [evidence["recorded"]]:
            if run and first <= run[1] + 1:
                run[1] = last
                continue
            if run:
                yield run
            run = [first, last]
    if run:
        yield run
