"""Single events: segments of work, or calls, that took far longer than usual, once or a few times.

    rank 2   work | call | work ─────── stopped ─────── | call | work | call
    others   work | call | work | call ──── waits ──────────── | work | call
                                ^ 4.19 s

An event is a fact of the run, whether or not it returns. So it is no test of significance. An event
is reported if the run would end earlier by MIN_SAVED_SHARE without its time beyond the usual time
of its place, and if it stands out: its savings are STANDS_OUT times those of the next event of its
kind (work, a call, asleep, or ready to run without a processor). Otherwise the work varies all the
time. Work must also exceed its usual time by STANDS_OUT standard deviations of its place. Operating
systems disturb all programs for less than MIN_EXCESS_NS, so shorter events are not reported. If
ranks wait longer for a processor than they run, only events of sleep are reported. Then the length
of work varies with the queues, so the sleep in work is also compared with the usual sleep there.

Events of the same ranks at the same place are one cause. So are more than MAX_CAUSES events of
different ranks, but these are an accident of no rank in particular.

Simultaneous events of several ranks, of which none is far longer than the others, are one event: a
stopped node, or the calls of all ranks that wait inside a collective for a stopped rank.

The function is silent if more than MAX_EVENTS events have similar savings, and if more than
MAX_CAUSES events of different ranks are at different places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mpiprof.account.segments import read_work
from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.cause import Cause, FoundCause, Removal, Saving, find_saving, join_removals
from mpiprof.causes.long_segments import (
    STANDS_OUT,
    find_long_calls,
    find_long_sleep,
    find_long_work,
    group_simultaneous,
    number_rows,
)
from mpiprof.causes.place import find_place
from mpiprof.facts.operations import OPERATIONS, base_operation
from mpiprof.interface.format_units import capitalise, format_ranks, format_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array

MIN_EXCESS_SHARE = 0.005  # of the run time, beyond the usual time, for a candidate
MIN_EXCESS_NS = 20_000_000  # of a reported event, in a run that is not short
MAX_SHORT_SHARE = 0.05  # of a short run, that is the minimum excess there
MIN_SAVED_SHARE = 0.01  # of the run time
MIN_MEMBER_SHARE = 0.5  # of the longest excess of simultaneous segments, for a cause of the others
MAX_EVENTS = 8
MAX_CAUSES = 3
MAX_TIMES = 4  # of events, that a sentence lists
MAX_REPLAYS = 24  # candidates with most excess time, which are replayed
MIN_OFF_SHARE = 0.5  # of the excess, from which a rank was off the processor


@dataclass(frozen=True)
class SingleEvent(Cause):
    """One event, or several ones of a kind.

    times_ns: begin of each event since the start of the run. length_ns, usual_ns: of the longest
    segment, and of others at its place. of_ranks: ranks of several events, each of another rank.
    off_ns: time in which the rank had no processor, None if it is unknown. asleep: whether the rank
    slept then (it was stopped, or waited for a file or lock), not ready to run; None if it is
    unknown.
    """

    finder: ClassVar[str] = "list_events"
    icon: ClassVar[str] = "paused"
    times_ns: tuple[int, ...]
    length_ns: int
    usual_ns: int
    of_ranks: tuple[int, ...] = ()
    off_ns: int | None = None
    asleep: bool | None = None

    @property
    def name(self) -> str:
        """Return the name in JSON."""
        if self.is_off_processor:
            return "off_processor"
        return "long_call" if self.places[0].inside else "long_work"

    @property
    def is_off_processor(self) -> bool:
        """Return whether the ranks had no processor for most of the event."""
        excess = self.length_ns - self.usual_ns
        return self.off_ns is not None and self.off_ns >= MIN_OFF_SHARE * excess

    @property
    def title(self) -> str:
        """Return the heading, one short line."""
        subject = capitalise(format_ranks(self.ranks)) if self.ranks else "A call"
        subject = "Work" if self.of_ranks else subject
        times = _count_times(len(self.times_ns))
        if self.is_off_processor:
            had = "had no processor for" if self.ranks else "stopped for"
            return f"{subject} {had} {format_time(self.off_ns or 0)} {times}"
        return f"{subject} took {format_time(self.length_ns)} {times}"

    @property
    def clause(self) -> str:
        """Return when, who, how long and where."""
        when, place = self._format_times(), self.places[0]
        subject, s = format_ranks(self.ranks), "" if len(self.ranks) > 1 else "s"
        up_to = "up to " if len(self.times_ns) > 1 else ""
        took = f"{up_to}{format_time(self.length_ns)} instead of {format_time(self.usual_ns)}"
        if self.of_ranks:
            each = f"each time on one of {format_ranks(self.of_ranks)}"
            where = str(place).removeprefix("inside ") if place.inside else "work"
            return f"{when}, {where} took {took}{'' if place.inside else f' {place}'}, {each}"
        if self.is_off_processor:
            was, off = "were" if len(self.ranks) > 1 else "was", format_time(self.off_ns or 0)
            return f"{when}, {subject} {was} off the processor for {up_to}{off} {place}"
        if place.inside:
            where = str(place).removeprefix("inside ")
            by = f" on {subject}" if self.ranks else " after its ranks had arrived"
            return f"{when}, {where} took {took}{by}"
        return f"{when}, {subject} work{s} {took} {place}"

    def _format_times(self) -> str:
        """Return "once, at 4.19 s", "3 times, at 1 s, 2 s and 4 s", or the first and last time."""
        times = [format_time(time_ns) for time_ns in self.times_ns]
        count = _count_times(len(times))
        if len(times) > MAX_TIMES:
            return f"{count} from {times[0]} to {times[-1]}"
        return f"{count}, at {' and '.join(filter(None, [', '.join(times[:-1]), times[-1]]))}"

    @property
    def reason(self) -> str:
        """Return the reason in few words, "" if it is unknown."""
        if not self.is_off_processor:
            return ""
        if self.asleep is None:
            return "off the processor"
        return "stopped or asleep" if self.asleep else "waited for a processor"

    @property
    def advice(self) -> str:
        """Return where to look."""
        ranks = format_ranks(self.ranks) or "the ranks"
        then = "at that time" if len(self.times_ns) == 1 else "at these times"
        if not self.is_off_processor:
            do = "do" if len(self.ranks) != 1 else "does"
            habit = ": it is no habit of the run" if len(self.times_ns) == 1 else ""
            return f"Look at what {ranks} {do} there {then}{habit}."
        if self.asleep is False:
            return f"Check for other processes on the node of {ranks} {then}."
        look = "Check whether a signal, a debugger or the batch system stopped"
        return f"{look} {ranks}, or for a file or a lock that took so long."


def _count_times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def list_events(trace: Trace, run_ns: float, begin_ns: int) -> list[FoundCause]:
    """Return the costliest events of a run, or of a window of a run that begins at a time."""
    least_ns = MIN_EXCESS_SHARE * run_ns
    work = read_work(trace)
    long_work = find_long_work(work, least_ns)
    long_sleep = find_long_sleep(trace, work, least_ns)
    other_sleep = long_sleep[~np.isin(number_rows(long_sleep), number_rows(long_work))]
    # Work that is long because of queues must not displace sleep, which may be shorter.
    groups = [
        group
        for segments in (other_sleep, np.concatenate([long_work, find_long_calls(trace, least_ns)]))
        for group in _choose_largest(group_simultaneous(segments))
    ]
    return [_make_event(trace, group, begin_ns) for group in groups]


def _choose_largest(groups: list[Array]) -> list[Array]:
    return sorted(groups, key=lambda group: -float(group["excess_ns"].max()))[:MAX_REPLAYS]


def choose_standing_out(events: Sequence[FoundCause], run_ns: float) -> list[FoundCause]:
    """Return the events whose savings are far above those of all further events of their kind."""
    kinds: dict[tuple[str, bool | None], list[FoundCause]] = {}
    for event in events:
        if isinstance(event.cause, SingleEvent):
            kinds.setdefault((event.cause.name, event.cause.asleep), []).append(event)
    chosen = []
    for of_kind in kinds.values():
        chosen += _join_repeated(_choose_first(of_kind, run_ns))
    return chosen


def _choose_first(events: list[FoundCause], run_ns: float) -> list[FoundCause]:
    ordered = sorted(events, key=lambda event: -event.saving.run_ns)
    least_ns, least_excess_ns = MIN_SAVED_SHARE * run_ns, find_least_excess(run_ns)
    savings = [event.saving.run_ns for event in ordered] + [least_ns / STANDS_OUT]
    for count in range(1, min(MAX_EVENTS, len(ordered)) + 1):
        if savings[count - 1] < least_ns:
            break
        if savings[count - 1] >= STANDS_OUT * savings[count]:
            return [
                event
                for event in ordered[:count]
                if event.removal.removed_ns.max() >= least_excess_ns
            ]
    return []


def find_least_excess(run_ns: float) -> float:
    """Return the least time in ns beyond the usual one that is reported."""
    return min(MIN_EXCESS_NS, MAX_SHORT_SHARE * run_ns)


def _join_repeated(events: Sequence[FoundCause]) -> list[FoundCause]:
    """Return the events, those of the same ranks at a place as one; all if many ranks have one."""
    groups: dict[tuple[tuple[int, ...], str], list[FoundCause]] = {}
    for event in events:
        key = event.cause.ranks, str(event.cause.places[0])
        groups.setdefault(key, []).append(event)
    joined = [_join_events(of_group, event_ranks=()) for of_group in groups.values()]
    if len(joined) <= MAX_CAUSES:
        return joined
    if len({str(event.cause.places[0]) for event in joined}) > 1:
        return []
    ranks = tuple(sorted({rank for event in joined for rank in event.cause.ranks}))
    return [_join_events(joined, event_ranks=ranks)]


def _join_events(events: Sequence[FoundCause], event_ranks: tuple[int, ...]) -> FoundCause:
    """Return several events as one; event_ranks: if they are of different ranks."""
    if len(events) == 1:
        return events[0]
    causes = [event.cause for event in events if isinstance(event.cause, SingleEvent)]
    longest = max(causes, key=lambda cause: cause.length_ns)
    off_ns = [cause.off_ns for cause in causes if cause.off_ns is not None]
    cause = replace(
        longest,
        ranks=() if event_ranks else longest.ranks,
        times_ns=tuple(sorted(time_ns for cause in causes for time_ns in cause.times_ns)),
        of_ranks=event_ranks,
        off_ns=max(off_ns, default=None),
    )
    saving = Saving(
        sum(event.saving.run_ns for event in events),
        sum(event.saving.waiting_ns for event in events),
        sum(event.saving.calls_ns for event in events),
    )
    return FoundCause(cause, join_removals([event.removal for event in events]), saving)


def _make_event(trace: Trace, group: Array, begin_ns: int) -> FoundCause:
    """Return the event of simultaneous segments: the work of ranks explains calls of the others."""
    removal = Removal(group["rank"], group["end_ns"], group["excess_ns"])
    saving = find_saving(trace, removal)
    # Short work beside a long call does not explain the call.
    is_long = group["excess_ns"] >= MIN_MEMBER_SHARE * group["excess_ns"].max()
    is_work = (group["after"] != INSIDE) & is_long
    if is_work.any():
        working = group[is_work]
        first = working[np.argmax(working["excess_ns"])]
        ranks = tuple(sorted(set(working["rank"].tolist())))
        off_ns, asleep = _find_off_time(trace, first)
    else:
        ranks, off_ns, asleep = _find_stalled_rank(trace, group)
        ranks = ranks or _find_first_rank(trace, group)
        first = group[group["rank"] == ranks[0]][0] if ranks else group[0]
        # The other ranks wait in their calls for the rank whose call is long.
        saving = replace(saving, calls_ns=removal.total_ns - float(first["excess_ns"]))
    event = SingleEvent(
        ranks,
        (find_place(trace, (int(first["before"]), int(first["after"]))),),
        (int(first["begin_ns"]) - begin_ns,),
        int(first["end_ns"] - first["begin_ns"]),
        round(float(first["usual_ns"])),
        off_ns=off_ns,
        asleep=asleep,
    )
    return FoundCause(event, removal, saving)


def _find_first_rank(trace: Trace, group: Array) -> tuple[int, ...]:
    """Return the rank whose long call on messages the other calls wait for, () in a collective."""
    operations = {shape.site: shape.operation for shape in trace.tables.shapes}
    names = [operations.get(site, "") for site in group["before"].tolist()]
    if any(base_operation(name) in OPERATIONS for name in names):
        return ()
    sends = np.array(["send" in name for name in names])
    order = np.lexsort((~sends, group["begin_ns"]))
    return (int(group["rank"][order[0]]),)


def _find_off_time(trace: Trace, segment: Array) -> tuple[int | None, bool | None]:
    """Return the time of a segment of work without a processor, and whether the rank slept.

    It slept if its sleep is most of the time beyond the usual one. Then this is the returned time,
    because on shared processors it waits for a processor as usual, too.
    """
    table = trace.intervals
    if not len(table):
        return None, None
    same = (table["rank"] == segment["rank"]) & (table["end_ns"] > segment["begin_ns"])
    same &= table["begin_ns"] < segment["end_ns"]
    rows = table[same]
    if not len(rows) or (rows["processor_ns"] < 0).any():
        return None, None
    busy = rows["processor_ns"] + rows["other_threads_ns"].clip(lower=0)
    queue_ns = float(rows["queue_ns"].clip(lower=0).sum())
    off_ns = float((rows["end_ns"] - rows["begin_ns"] - busy).clip(lower=0).sum())
    asleep_ns = off_ns - queue_ns
    if asleep_ns >= MIN_OFF_SHARE * float(segment["excess_ns"]):
        return round(asleep_ns), True
    return round(off_ns), False


def _find_stalled_rank(
    trace: Trace, group: Array
) -> tuple[tuple[int, ...], int | None, bool | None]:
    """Return the rank that had no processor in its call, for how long, and whether it slept."""
    begin, end = int(group["begin_ns"].min()), int(group["end_ns"].max())
    for call in sorted(trace.tables.stalled_calls, key=lambda call: -call.off_ns):
        offset = trace.clock_of(call.rank).offset_at(call.enter_ns)
        overlap = min(call.exit_ns + offset, end) - max(call.enter_ns + offset, begin)
        if call.rank in group["rank"] and 2 * overlap >= end - begin:
            asleep = None if call.queue_ns < 0 else call.asleep_ns >= call.queue_ns
            # The rank may also have waited in the call, before the others came.
            segment = group[group["rank"] == call.rank][0]
            off_ns = min(call.off_ns, int(segment["end_ns"] - segment["begin_ns"]))
            return (call.rank,), off_ns, asleep
    return (), None, None
