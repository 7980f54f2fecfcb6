"""The picture that proves the answer.

It shows the arrivals in a typical instance of the worst call site, or the waiting for messages that
each rank causes there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.instance_series import find_worst_instance
from mpiprof.account.rank_totals import read_instance
from mpiprof.causes.finding import Finding, is_blamed
from mpiprof.errors import MpiprofError
from mpiprof.interface import svg
from mpiprof.interface.format_units import (
    format_count,
    format_instance,
    format_ranks,
    format_time,
    unit_of,
)
from mpiprof.interface.svg import TableRow, choose_ticks
from mpiprof.reports.pictures.caused_waits import CausedWaits, draw_caused_waits
from mpiprof.reports.site_labels import format_callsite, format_wait_site, make_callsite_key
from mpiprof.reports.words import captions
from mpiprof.reports.words.ranks_and_steps import host_of
from mpiprof.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

WIDTHS = {"wide": (760.0, 290.0), "narrow": (366.0, 230.0)}  # by class: of the picture in px
LARGE_SHARE = 0.5  # of the 90th percentile of the spreads; smaller ones are not typical of a delay
MAX_ROWS, MAX_LENSES, MAX_NODES = 64, 4, 10
LENS_PX, TALLEST_PX = 12.0, 30.0
TOP, BOTTOM = 38.0, 24.0  # px of the labels above and of the axis
NODE_GAP = 4.0

Scale = Callable[[float], float]  # from a time in ns to an x in px


@dataclass(frozen=True)
class InstanceArrivals:
    """Times of the members of an instance in ns, by ascending rank.

    wait_ns: from the arrival. exit_ns: 0 if the rank did not leave. late: of ranks that the others
    wait for. nodes: names of nodes, or empty on one node. operation: the called operation.
    """

    ranks: Int
    arrival_ns: Int
    wait_ns: Int
    exit_ns: Int
    late: Bool
    nodes: Sequence[str]
    operation: str

    @property
    def median_ns(self) -> float:
        """Median arrival of the ranks that are not late."""
        others = self.arrival_ns[~self.late]
        return float(np.median(others if len(others) else self.arrival_ns))

    def list_values(self) -> list[TableRow]:
        """Return the data of the picture: the times of each rank."""
        names = ("rank", "node", "arrival_ns", "wait_ns", "exit_ns")
        nodes = self.nodes or [""] * len(self.ranks)
        columns = (self.arrival_ns.tolist(), self.wait_ns.tolist(), self.exit_ns.tolist())
        return [names, *zip(self.ranks.tolist(), nodes, *columns, strict=True)]

    @property
    def late_ns(self) -> float:
        """Time from the median to the last arrival."""
        return float(self.arrival_ns.max() - self.median_ns)

    @property
    def sentence(self) -> str:
        """Content of the picture, for readers who do not see it."""
        if not self.late.any():
            return f"{self.operation}: the last rank arrives {format_time(self.late_ns)} late."
        names, waiting = format_ranks(self.ranks[self.late].tolist()), int((~self.late).sum())
        return (
            f"{self.operation}: {format_count(waiting)} ranks wait {format_time(self.late_ns)} "
            f"for {names}."
        )


@dataclass(frozen=True)
class _Row:
    """Members of a row (indices), its top and height in px, and whether its ranks are late."""

    members: Int
    top: float
    height: float
    late: bool


def draw_arrivals(instance: InstanceArrivals, width: float = 760, height: float = 290) -> str:
    """Return the picture."""
    left = 70.0 if width > 500 else 58.0
    right = width - 12
    rows = _place_rows(instance, height - TOP - BOTTOM)
    bottom = rows[-1].top + rows[-1].height
    low, high = _time_limits(instance)

    def at(time_ns: float) -> float:
        return left + (right - left) * float(np.clip((time_ns - low) / (high - low), 0, 1))

    parts = [part for row in rows for part in _draw_row(instance, row, at(low), at(high), at)]
    parts += _draw_names(instance, rows, left)
    parts += _draw_marks(instance, at, bottom, left)
    parts += _draw_axis(instance, at, low, high, bottom)
    return svg.make_picture(width, bottom + BOTTOM, instance.sentence, parts)


def _time_limits(instance: InstanceArrivals) -> tuple[float, float]:
    """Return the limits of the time axis: as much before the median as the lateness after it."""
    span = max(instance.late_ns, 1.0)
    ends = max(float(instance.exit_ns.max()), float(instance.arrival_ns.max()))
    after = min(ends, instance.arrival_ns.max() + span) + 0.35 * span
    return instance.median_ns - 1.1 * span, after


def _place_rows(instance: InstanceArrivals, room: float) -> list[_Row]:
    """Return the rows from top to bottom."""
    groups = list(_group_members(instance))
    lenses = sum(late for _, late in groups) if len(groups) > room / LENS_PX else 0
    gaps = NODE_GAP * (len({_node_of(instance, members) for members, _ in groups}) - 1)
    gaps = gaps if gaps <= NODE_GAP * MAX_NODES else 0.0
    each = min((room - gaps - lenses * LENS_PX) / max(len(groups) - lenses, 1), TALLEST_PX)
    rows: list[_Row] = []
    top, node = TOP, ""
    for members, late in groups:
        name = _node_of(instance, members)
        top += NODE_GAP if rows and gaps and name != node else 0.0
        node = name
        high = LENS_PX if late and lenses else each
        rows.append(_Row(members, top, high, late))
        top += high
    return rows


def _group_members(instance: InstanceArrivals) -> Iterator[tuple[Int, bool]]:
    """Yield the members of each row, and whether they are late."""
    count = len(instance.ranks)
    limits = np.linspace(0, count, min(count, MAX_ROWS) + 1).astype(int)
    few = instance.late.sum() <= MAX_LENSES
    for first, last in zip(limits[:-1].tolist(), limits[1:].tolist(), strict=True):
        members = np.arange(first, last)
        late = instance.late[members]
        if late.any() and not late.all() and few:
            cuts = np.flatnonzero(np.diff(late)) + 1
            for part in np.split(members, cuts):
                yield part, bool(instance.late[part[0]])
        else:
            yield members, bool(late.any())


def _node_of(instance: InstanceArrivals, members: Int) -> str:
    return instance.nodes[int(members[0])] if len(instance.nodes) else ""


def _draw_row(
    instance: InstanceArrivals, row: _Row, begin: float, end: float, at: Scale
) -> Iterator[str]:
    arrivals: Float = instance.arrival_ns[row.members].astype(np.float64)
    latest = int(row.members[int(arrivals.argmax())])
    arrival = float(instance.arrival_ns[latest])
    waits = arrival + float(instance.wait_ns[latest])
    leaves = float(instance.exit_ns[latest]) or float("inf")
    high = row.height - (0.8 if row.height > 3 else 0.0)

    def box(start: float, stop: float, attributes: str) -> str:
        if stop - start < 0.1:
            return ""
        return svg.make_rectangle(start, row.top, stop - start, high, attributes)

    middle = at(instance.median_ns)
    if row.late:
        yield box(begin, min(at(arrival), middle), svg.fill("late-soft"))
        yield box(middle, at(arrival), svg.fill("late"))
    else:
        yield box(begin, at(arrival), svg.fill("q1"))
    yield box(at(arrival), at(waits), svg.hatch("hatch", row.height))
    if leaves == float("inf"):
        yield box(at(waits), end, svg.hatch("hatch", row.height))
        return
    yield box(at(waits), at(leaves), svg.fill("q3"))
    yield box(at(leaves), end, svg.fill("q1"))


def _draw_names(instance: InstanceArrivals, rows: Sequence[_Row], left: float) -> Iterator[str]:
    """Yield the names of nodes and late ranks at the left; without nodes, the first and last."""
    marked = [row for row in rows if row.late][:MAX_LENSES]
    taken = [row.top + row.height / 2 for row in marked]
    for row, y in zip(marked, taken, strict=True):
        name = format_ranks(instance.ranks[row.members].tolist())
        yield svg.make_text(left - 8, y + 4, name, "late-text", anchor="end", size=12, bold=True)
    names: dict[str, tuple[float, float]] = {}
    for row in rows:
        node = _node_of(instance, row.members)
        top = names.get(node, (row.top, 0.0))[0]
        names[node] = top, row.top + row.height
    if not 1 < len(names) <= MAX_NODES:
        ends = (rows[0], rows[-1])
        names = {f"rank {instance.ranks[r.members[0]]}": (r.top, r.top + r.height) for r in ends}
    for name, (top, bottom) in names.items():
        middle = (top + bottom) / 2
        near = min((abs(middle - y) for y in taken), default=99.0)
        if near < 13:  # beside the name of a late rank
            middle = top + 9 if taken and taken[0] > middle - 1 else bottom - 4
            near = min(abs(middle - y) for y in taken)
        if near >= 12:
            yield svg.make_text(left - 12, middle + 4, name[:10], "ink2", anchor="end")
        if bottom - top > 24:
            tick = f"M{left - 4:.1f} {top:.1f}h-4v{bottom - top - 1:.1f}h4"
            yield svg.make_path(tick, svg.stroke("line2"))


def _draw_marks(instance: InstanceArrivals, at: Scale, bottom: float, left: float) -> Iterator[str]:
    middle, last = at(instance.median_ns), at(float(instance.arrival_ns.max()))
    yield svg.make_line(middle, 14, middle, bottom, svg.stroke("ink3", 1, "3 3"))
    colour = "late" if instance.late.any() else "ink3"
    yield svg.make_line(last, 14, last, bottom, svg.stroke(colour))
    y = 24.0
    if middle - left > 100:
        yield svg.make_text(middle - 6, y + 4, "the others arrive", "ink2", anchor="end")
    yield svg.make_dimension(middle, last, y, format_time(instance.late_ns), colour)
    others = int((~instance.late).sum())
    text = f"{format_count(others)} rank{'s wait' if others != 1 else ' waits'} here"
    wide = svg.measure_text(text, 12) + 16
    if instance.late.any() and others and last - middle > wide + 8:
        x, y = (middle + last) / 2, bottom - 22
        box = f'{svg.fill("surface")} rx="4"'
        yield svg.make_rectangle(x - wide / 2, y, wide, 18, box)
        yield svg.make_text(x, y + 13, text, "ink", anchor="middle", size=12)


def _draw_axis(
    instance: InstanceArrivals, at: Scale, low: float, high: float, bottom: float
) -> Iterator[str]:
    zero = instance.median_ns
    unit, scale = unit_of(high - zero)
    for tick in choose_ticks((low - zero) / scale, (high - zero) / scale, 6):
        x = at(zero + tick * scale)
        text = f"{tick:+g}".replace("-", "−") if tick else f"0 {unit}"
        yield svg.make_line(x, bottom, x, bottom + 4, svg.stroke("line2"))
        yield svg.make_text(x, bottom + 17, text, anchor="middle")


@dataclass(frozen=True)
class Proof:
    """A picture of a call site, with its title.

    callsite: key of the call site. number: of the instance, None in messages.
    """

    callsite: int | str
    number: int | None
    title: str
    content: InstanceArrivals | CausedWaits
    how_to_read: str = captions.INSTANCE_ARRIVALS

    def draw(self, size: tuple[float, float] = WIDTHS["wide"]) -> str:
        """Return the picture."""
        if isinstance(self.content, CausedWaits):
            return draw_caused_waits(self.content, *size)
        return draw_arrivals(self.content, *size)


def find_proof(trace: Trace, finding: Finding | None, instances: pd.DataFrame) -> Proof | None:
    """Return the picture that proves a finding, or None if none can. instances: of the trace."""
    main = None if finding is None else finding.main_callsite
    if finding is not None and isinstance(main, tuple):
        return _prove_by_messages(trace, finding, main)
    chosen = None if finding is None else choose_instance(instances, finding)
    if finding is None or chosen is None:
        return None
    row, number, count = chosen
    try:
        arrivals = read_arrivals(trace, finding, row)
    except MpiprofError:
        return None
    callsite = int(row["callsite"])
    ranks = "a row is a rank"
    if len(arrivals.ranks) > MAX_ROWS:
        ranks = "a row is the latest of several ranks"
    place = f"{format_callsite(trace, callsite)}, {format_instance(number, count)}"
    title = f"{place}; {ranks}, from the median of the others"
    is_typical = count > 1 and is_blamed(finding) and int(row["last_rank"]) in finding.ranks
    how_to_read = captions.INSTANCE_ARRIVALS + captions.TYPICAL_INSTANCE * is_typical
    return Proof(callsite, number, title, arrivals, how_to_read)


def _prove_by_messages(trace: Trace, finding: Finding, callsite: tuple[str, int]) -> Proof | None:
    """Return the picture of the waiting in messages at a call site, or None if it is unknown."""
    known = trace.derive("rank_waits")(callsite)
    if known is None or not known[1].any():
        return None
    waits = CausedWaits(known[0], known[1], mark_blamed(trace, finding))
    title = f"Waiting at {format_wait_site(trace, callsite)}, by rank"
    return Proof(make_callsite_key(callsite), None, title, waits, captions.CAUSED_WAITS)


def mark_blamed(trace: Trace, finding: Finding) -> Bool:
    """Return for each rank whether the finding blames it."""
    return np.isin(np.arange(trace.ranks), finding.ranks) & is_blamed(finding)


def choose_instance(table: Any, finding: Finding) -> tuple[Any, int, int] | None:
    """Return a typical instance in which a blamed rank is last, its number, and their count.

    It has the median spread among those of large spread, because a rank with occasional delays is
    sometimes last by chance. It is at the first call site of the finding that has any. Without
    blamed ranks it is the instance with most waiting.
    """
    for callsite in finding.callsites:
        rows = table[(table["callsite"] == callsite).to_numpy()].reset_index(drop=True)
        rows = rows.assign(number=np.arange(len(rows)))
        good = rows[rows["complete"].to_numpy(np.bool_) & (rows["size"] > 1).to_numpy()]
        if not len(good):
            continue
        spread = "worst_imbalance_ns"
        mine = good[good["last_rank"].isin(finding.ranks).to_numpy()]
        if len(mine) and is_blamed(finding):
            large = mine[mine[spread] >= LARGE_SHARE * mine[spread].quantile(0.9)]
            row = large.sort_values(spread, kind="stable").iloc[len(large) // 2]
        else:
            row = good.iloc[find_worst_instance(good)]
        return row, int(row["number"]), len(rows)
    return None


def read_arrivals(trace: Trace, finding: Finding, row: Any) -> InstanceArrivals:
    """Return the times of one instance; `row`: of `Trace.instances`."""
    since = int(row["first_arrival_ns"])
    found = read_instance(
        trace, str(row["communicator"]), int(row["sequence"]), int(row["start"]), since
    )
    order = np.argsort(found.ranks)
    ranks = found.ranks[order]
    late = np.isin(ranks, finding.ranks) if is_blamed(finding) else np.zeros(len(ranks), np.bool_)
    nodes = [host_of(trace, int(rank)) for rank in ranks]
    names = nodes if len(set(nodes)) > 1 else []
    return InstanceArrivals(
        ranks,
        found.arrival[order],
        found.wait[order],
        found.finish[order],
        late,
        names,
        str(row["operation"]),
    )
