"""Patterns of lateness: what each explains of the waiting at a call site, and how surely.

A pattern is a claim of who is late, when and by how much. What it explains is the waiting that
would vanish if the lateness did. The best one is taken out of the arrivals, and the rest looked at
again, so that causes that are mixed come apart and no waiting is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.analysis import outliers, ranksets, tails
from mpiprof.analysis.edges import exact, is_flat, lateness, levels_of, phases_of, signals
from mpiprof.analysis.grid import Grid, median_of
from mpiprof.analysis.phases import (
    CHANCE_PERIODIC,
    period_of,
)
from mpiprof.analysis.ranksets import RankSet
from mpiprof.analysis.trends import trend_of
from mpiprof.analysis.turns import turns
from mpiprof.trace.types import Bool, Float, Int

PART = 0.05  # of the waiting that a pattern must explain
MOST = 5  # patterns of a call site
SURE = 0.002  # chance at most, over all that is looked at
ALIKE = 0.9  # of the best one's waiting: then the simpler pattern is preferred
HARDER = {"rank": 1.1, "early": 1.1, "node": 1.1, "gradient": 1.05, "each": 1.2}
MOST_TRIED = 16  # ranks of a set that are tried without
NEEDED = 0.02  # of the set's waiting that each rank of it must explain
FEWEST_TIMES = 3  # that a rank must be late to be named for it
NEAR = 4  # instances
SPORADIC = 0.2  # of the waiting that a rank explains beyond what chance makes of the others


@dataclass(frozen=True)
class Pattern:
    """Who is late, when and by how much; times in ns.

    cause: of findings.CAUSES; ranks: world ranks, the latest first; late_ns: of an outlier, in the
    worst of its instances, else the usual; instances: columns of the grid in which it holds; period
    and offsets: every period-th instance, those with number % period in offsets; step: by how many
    ranks lateness goes on each time; gain_ns: waiting that it explains, in the sample; p: how
    likely chance makes it; once: of the patterns found before, the one without which this explains
    its waiting; None where it does so at once; each: all ranks differ, and these are the latest;
    shows: in how many instances who is due is late by half of late_ns, None where that is no turn;
    levels: where it differs from phase to phase, the first and last column of each and how late;
    grows: how late at first and in the end, where that changes steadily.
    """

    cause: str
    ranks: tuple[int, ...]
    late_ns: float
    instances: Int
    gain_ns: float
    p: float
    period: int | None = None
    offsets: tuple[int, ...] = ()
    step: int | None = None
    node: str | None = None
    once: int | None = None
    each: bool = False
    shows: int | None = None
    levels: tuple[tuple[int, int, float], ...] = ()
    grows: tuple[float, float] | None = None


@dataclass(frozen=True)
class _Candidate:
    pattern: Pattern
    shift: Float  # rows x instances of the grid


def patterns(grid: Grid) -> tuple[list[Pattern], float]:
    """Return the patterns of a call site, in the order of their finding, and what waiting is left.

    The sum of what they explain and what is left is all waiting (`Grid.waiting`, in ns).
    """
    arrival = grid.arrival
    if grid.instances == 1:
        return _only(grid)
    whole = left = float(grid.waiting(arrival).sum())
    found: list[Pattern] = []
    shifts: list[Float] = []
    while whole > 0 and len(found) < MOST:
        best = _best(list(_candidates(grid, arrival)))
        if best is None or best.pattern.gain_ns < PART * whole:
            break
        found.append(replace(best.pattern, once=_once(grid, shifts, best)))
        shifts.append(best.shift)
        arrival = arrival - best.shift
        left -= best.pattern.gain_ns
    return found, max(left, 0.0)


def _only(grid: Grid) -> tuple[list[Pattern], float]:
    """Return what is known of a single instance: who came far behind the others in it."""
    waits = float(grid.waiting(grid.arrival).sum())
    ranks = outliers.blamed(grid, grid.arrival)
    spread = float(np.nanmax(grid.arrival))
    if not ranks or spread <= grid.least_ns or waits <= 0:
        return [], waits
    return [Pattern("outlier", ranks, spread, np.zeros(1, np.int64), waits, 1.0)], 0.0


def _best(candidates: Sequence[_Candidate]) -> _Candidate | None:
    """Return what explains most; of those that explain as much, the first."""
    most = max((one.pattern.gain_ns for one in candidates), default=0.0)
    good = (one for one in candidates if one.pattern.gain_ns >= ALIKE * most > 0)
    return next(good, None)


def _candidates(grid: Grid, arrival: Float) -> Iterator[_Candidate]:
    """Yield what chance does not explain, the simplest first."""
    waits = grid.waiting(arrival)
    yield from _steady(grid, arrival, waits)
    yield from _growing(grid, arrival, waits)
    yield from _outliers(grid, arrival, waits)
    yield from _periodic(grid, arrival, waits)
    yield from _moving(grid, arrival, waits)
    yield from _sporadic(grid, arrival, waits)


def gain_of(grid: Grid, arrival: Float, shift: Float, waits: Float) -> float:
    """Return the waiting that vanishes where ranks come earlier by `shift`."""
    return float((waits - grid.waiting(arrival - shift)).sum())


def _once(grid: Grid, shifts: Sequence[Float], last: _Candidate) -> int | None:
    """Return which lateness, of those taken out before, hides most of what the last one costs.

    Where a rank comes later still, nothing is gained by an earlier arrival of the one before it.
    """
    arrival = grid.arrival
    for number, shift in enumerate([*shifts, last.shift]):
        gain = gain_of(grid, arrival, last.shift, grid.waiting(arrival))
        if gain > last.pattern.gain_ns / 2:
            return number - 1 if number else None
        arrival = arrival - shift
    return len(shifts) - 1 if shifts else None


# The same ranks, as long as a phase lasts


def _steady(grid: Grid, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    groups: dict[tuple[str, frozenset[int]], list[tuple[RankSet, Int]]] = {}
    spans = phases_of(grid, arrival)
    for one, columns in _sets(grid, arrival, waits, spans):
        groups.setdefault(_key(one), []).append((one, columns))
    for of in groups.values():
        first = max((one for one, _ in of), key=lambda one: one.late_ns)
        found = [(one, exact(grid, arrival, first.rows, columns, spans)) for one, columns in of]
        of = [(one, columns) for one, columns in found if columns is not None]
        if not of:
            continue
        shift = np.zeros_like(arrival)
        for one, columns in of:
            shift[:, columns] = one.shift[:, None]
        columns = np.unique(np.concatenate([columns for _, columns in of]))
        gain = gain_of(grid, arrival, shift, waits)
        if gain <= 0:
            continue
        late = float(np.average([one.late_ns for one, _ in of], weights=[len(c) for _, c in of]))
        ranks = tuple(grid.ranks[first.rows].tolist())
        p = max(one.p for one, _ in of)
        cause = "rank" if first.kind == "each" else first.kind
        each = first.kind == "each"
        levels = levels_of([(columns, one.late_ns) for one, columns in of])
        steady = Pattern(cause, ranks, late, columns, gain, p, node=first.node, each=each)
        yield _Candidate(replace(steady, levels=levels), shift)


def _key(one: RankSet) -> tuple[str, frozenset[int]]:
    return one.kind, frozenset(one.rows.tolist())


def _sets(
    grid: Grid, arrival: Float, waits: Float, spans: list[Int]
) -> Iterator[tuple[RankSet, Int]]:
    """Yield the set of each phase, of neighbours that are alike as of one.

    Who comes last, and how far apart the others are, may change where these ranks do not.
    """
    held: tuple[RankSet, Int] | None = None
    for columns in spans:
        one = _best_set(grid, arrival, waits, columns, len(spans))
        if held is not None and one is not None and _key(one) == _key(held[0]):
            both = np.concatenate([held[1], columns])
            whole = _best_set(grid, arrival, waits, both, len(spans))
            alike = whole is not None and _key(whole) == _key(one)
            if whole is not None and alike and is_flat(lateness(arrival[:, both], whole.rows)):
                held = whole, both
                continue
        if held is not None:
            yield held
        held = (one, columns) if one is not None else None
    if held is not None:
        yield held


def _best_set(grid: Grid, arrival: Float, waits: Float, columns: Int, tests: int) -> RankSet | None:
    """Return the set of ranks that explains most of the waiting of some instances."""

    def gain(one: RankSet) -> float:
        shift = np.zeros_like(arrival)
        shift[:, columns] = one.shift[:, None]
        return gain_of(grid, arrival, shift, waits)

    best, most = None, 0.0
    for one in ranksets.candidates(grid, arrival[:, columns], SURE / tests):
        explained = gain(one)
        # What is more complicated must explain more.
        if explained > (HARDER[one.kind] * most if best is not None else 0.0):
            best, most = one, explained
    return _needed(best, most, gain) if best is not None else None


def _needed(one: RankSet, most: float, gain: Callable[[RankSet], float]) -> RankSet:
    """Return a set without the ranks whose lateness nobody waits for, as in a broadcast."""
    if one.kind not in ("rank", "early") or not 1 < len(one.rows) <= MOST_TRIED:
        return one
    for row in one.rows.tolist():
        shift = one.shift.copy()
        shift[row] = 0.0
        rows = one.rows[one.rows != row]
        less = replace(one, rows=rows, shift=shift, late_ns=abs(float(shift[rows[0]])))
        if gain(less) >= most * (1 - NEEDED):
            return _needed(less, most, gain)
    return one


# One rank, more and more, or less and less


def _growing(grid: Grid, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    found = trend_of(arrival, waits, SURE)
    if found is None or found.line.max() <= grid.least_ns:
        return
    columns = np.arange(grid.instances)
    shift = np.zeros_like(arrival)
    shift[found.row] = found.line
    gain = gain_of(grid, arrival, shift, waits)
    ends = float(found.line[0]), float(found.line[-1])
    ranks = (int(grid.ranks[found.row]),)
    late = float(np.median(found.line))
    yield _Candidate(Pattern("rank", ranks, late, columns, gain, found.p, grows=ends), shift)


# Few instances that hold much


def _outliers(grid: Grid, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    columns = outliers.outlying(grid, arrival, waits)
    if not len(columns):
        return
    shift = np.zeros_like(arrival)
    shift[:, columns] = arrival[:, columns] - np.nanmin(arrival[:, columns], 0)
    gain = float(waits[columns].sum())
    ranks = outliers.blamed(grid, arrival[:, columns])
    late = float(np.nanmax(arrival[:, columns]))
    yield _Candidate(Pattern("outlier", ranks, late, columns, gain, 0.0), shift)


# Again and again


def _periodic(grid: Grid, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    signal = np.log(np.maximum(waits / max(len(arrival) - 1, 1), grid.least_ns))
    every = period_of(signal, grid.number)
    if every is None:
        return
    kind = grid.number % every.length
    known = np.bincount(kind, minlength=every.length)
    mean = np.bincount(kind, waits, every.length) / np.maximum(known, 1)
    high = mean > (mean.max() + mean[known > 0].min()) / 2
    columns = np.flatnonzero(high[kind])
    if len(columns) in (0, grid.instances):
        return
    offsets = tuple(np.flatnonzero(high & (known > 0)).tolist())
    one = _best_set(grid, arrival, waits, columns, 1)
    shift = np.zeros_like(arrival)
    ranks: tuple[int, ...] = ()
    late, p = float(np.median(np.nanmax(arrival[:, columns], 0))), CHANCE_PERIODIC
    grown = trend_of(arrival[:, columns], waits[columns], SURE)
    grows = None
    if one is None and grown is not None:
        shift[grown.row, columns] = grown.line
        ranks, late, p = (int(grid.ranks[grown.row]),), float(np.median(grown.line)), grown.p
        grows = float(grown.line[0]), float(grown.line[-1])
    elif one is not None and one.kind not in ("gradient", "each"):
        shift[:, columns] = one.shift[:, None]
        ranks, late, p = tuple(grid.ranks[one.rows].tolist()), one.late_ns, one.p
    else:
        # Nobody in particular: these instances spread as little as the others do.
        usual = float(np.median(waits[~high[kind]]) / max(np.median(waits[columns]), 1.0))
        shift[:, columns] = (1 - min(usual, 1.0)) * (
            arrival[:, columns] - np.nanmin(arrival[:, columns], 0)
        )
    gain = gain_of(grid, arrival, shift, waits)
    found = Pattern("periodic", ranks, late, columns, gain, p, every.length, offsets)
    yield _Candidate(replace(found, grows=grows), shift)


# From rank to rank


def _moving(grid: Grid, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    _, last = signals(grid, arrival)
    row = np.where(last >= 0, np.nanargmax(arrival, 0), -1)
    found = turns(row, grid.number, waits, len(arrival))
    if found is None:
        return
    columns = np.flatnonzero(found.row >= 0)
    at = (found.row[columns], columns)
    late = arrival[at] - _median_of_others(arrival[:, columns], at[0])
    amount = float(np.median(late))
    if amount <= grid.least_ns or found.p > SURE:
        return
    shift = np.zeros_like(arrival)
    shift[at] = np.clip(late, 0.0, amount)
    rows = np.unique(at[0])
    ranks = tuple(grid.ranks[rows].tolist())
    gain = gain_of(grid, arrival, shift, waits)
    cause = "periodic" if len(rows) == 1 else "moving"
    period, offsets, step = found.period, found.offsets, found.step
    moves = Pattern(cause, ranks, amount, columns, gain, found.p, period, offsets, step)
    shows = int((late > amount / 2).sum())
    yield _Candidate(replace(moves, shows=shows), shift)


def _median_of_others(arrival: Float, row: Int) -> Float:
    """Return for each instance the median arrival of all but one row."""
    others = arrival.copy()
    others[row, np.arange(arrival.shape[1])] = np.nan
    return np.asarray(median_of(others))


# One rank, now and then


def _sporadic(grid: Grid, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    """Yield the rank whose lateness costs far more than that of the others, if there is one."""
    whole, ranks = float(waits.sum()), len(arrival)
    if whole <= 0 or ranks < 2:
        return
    last = np.nanargmax(arrival, 0)
    weight = np.bincount(last, waits, ranks)
    row = int(np.argmax(weight))
    usual = float(np.median(np.delete(weight, row))) / max(float(weight[row]), 1.0)
    middle = median_of(np.delete(arrival, row, 0))
    late = np.nan_to_num(arrival[row] - middle)
    columns = np.flatnonzero(_notable(late, last == row))
    if len(columns) < FEWEST_TIMES:
        return
    amount = float(np.median(late[columns]))
    shift = np.zeros_like(arrival)
    shift[row, columns] = amount
    gain = gain_of(grid, arrival, shift, waits) * max(1.0 - usual, 0.0)
    p = _chance_of_events(waits, last, row, ranks)
    if p <= SURE and gain >= SPORADIC * whole and amount > grid.least_ns:
        yield _Candidate(Pattern("rank", (int(grid.ranks[row]),), amount, columns, gain, p), shift)


def _chance_of_events(waits: Float, last: Int, row: int, ranks: int) -> float:
    """Return how likely chance lets one rank be the last in so many of the costly instances.

    What follows within NEAR instances of another one of the same rank is the same event.
    """
    order = np.sort(waits)[::-1]
    heavy = order[: int(np.searchsorted(np.cumsum(order), order.sum() / 2)) + 1]
    events = np.flatnonzero(waits > float(np.median(heavy)) / 2)
    count = hits = 0
    newest: dict[int, int] = {}
    for column, of in zip(events.tolist(), last[events].tolist(), strict=True):
        if column - newest.get(of, -NEAR - 1) > NEAR:
            count += 1
            hits += of == row
        newest[of] = column
    return min(tails.binomial(hits, count, 1 / ranks) * ranks, 1.0)


def _notable(late: Float, chosen: Bool) -> Bool:
    """Return in which instances a rank is late by at least half of what costs most."""
    order = np.sort(late[chosen])[::-1]
    total = np.cumsum(order)
    heavy = order[: int(np.searchsorted(total, total[-1] / 2)) + 1]
    return np.asarray(chosen & (late > float(np.median(heavy)) / 2))
