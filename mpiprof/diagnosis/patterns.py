"""Patterns of lateness: the share of a call site's wait that each explains, and its significance.

A pattern states which ranks are late, when and by how much. It explains the wait that would vanish
without this lateness. The best pattern is subtracted from the arrivals and the search is repeated.
So mixed causes are separated and no wait is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.diagnosis import outliers, rank_sets
from mpiprof.diagnosis.arrival_matrix import Grid, median_of
from mpiprof.diagnosis.onsets import exact, is_flat, lateness, levels_of, phases_of, signals
from mpiprof.diagnosis.phases import CHANCE_PERIODIC, period_of
from mpiprof.diagnosis.rank_sets import RankSet
from mpiprof.diagnosis.rotation import turns
from mpiprof.diagnosis.trends import trend_of
from mpiprof.trace.types import Bool, Float, Int

PART = 0.05  # minimum share of the wait that a pattern must explain
MOST = 5  # maximum number of patterns per call site
SURE = 0.002  # maximum p-value, corrected for all tests
ALIKE = 0.9  # a simpler pattern wins if it explains this share of the best one's wait
HARDER = {"rank": 1.1, "early": 1.1, "node": 1.1, "gradient": 1.05, "each": 1.2}
MOST_TRIED = 16  # larger sets are not tested rank by rank
NEEDED = 0.02  # minimum share of the set's wait that each of its ranks must explain
FEWEST_TIMES = 3  # minimum number of late instances for a rank to be blamed
NEAR = 4  # instances
SPORADIC = 0.2  # minimum share of the wait that a sporadic rank explains beyond chance


@dataclass(frozen=True)
class Pattern:
    """A pattern: its late ranks, instances and amount of lateness; times in ns.

    - cause: an entry of findings.CAUSES. ranks: world ranks, the latest first.
    - late_ns: usual lateness, or for an outlier, lateness in the worst of its instances.
    - instances: columns of the arrival matrix in which the pattern holds.
    - period, offsets: the pattern affects instances with number % period in offsets.
    - step: number of ranks by which lateness moves on each time.
    - gain_ns: wait in the sample that the pattern explains. p: p-value of the pattern.
    - once: index of the earlier pattern that must be removed before this one costs wait, or None.
    - each: True if all ranks differ and `ranks` are the latest.
    - shows: number of instances in which the rank due is late by half of late_ns, or None if the
      pattern is no rotation.
    - levels: if the lateness differs between phases, first column, last column and lateness of
      each.
    - grows: first and last lateness if it changes steadily.
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
    shift: Float  # rows x instances of the arrival matrix


def patterns(grid: Grid) -> tuple[list[Pattern], float]:
    """Return the patterns of a call site in order of detection, and the wait left unexplained.

    The gains and the remainder sum to the total wait (`Grid.waiting`, in ns).
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
    """Return an outlier pattern if ranks arrive far behind the others in the only instance."""
    waits = float(grid.waiting(grid.arrival).sum())
    ranks = outliers.blamed(grid, grid.arrival)
    spread = float(np.nanmax(grid.arrival))
    if not ranks or spread <= grid.least_ns or waits <= 0:
        return [], waits
    return [Pattern("outlier", ranks, spread, np.zeros(1, np.int64), waits, 1.0)], 0.0


def _best(candidates: Sequence[_Candidate]) -> _Candidate | None:
    """Return the first candidate that explains nearly as much as the best, or None."""
    most = max((one.pattern.gain_ns for one in candidates), default=0.0)
    good = (one for one in candidates if one.pattern.gain_ns >= ALIKE * most > 0)
    return next(good, None)


def _candidates(grid: Grid, arrival: Float) -> Iterator[_Candidate]:
    """Yield the significant candidates, the simplest first."""
    waits = grid.waiting(arrival)
    yield from _steady(grid, arrival, waits)
    yield from _growing(grid, arrival, waits)
    yield from _outliers(grid, arrival, waits)
    yield from _periodic(grid, arrival, waits)
    yield from _moving(grid, arrival, waits)
    yield from _sporadic(grid, arrival, waits)


def gain_of(grid: Grid, arrival: Float, shift: Float, waits: Float) -> float:
    """Return the wait that vanishes if ranks arrive earlier by `shift`."""
    return float((waits - grid.waiting(arrival - shift)).sum())


def _once(grid: Grid, shifts: Sequence[Float], last: _Candidate) -> int | None:
    """Return the index of the earlier shift that hides most of the last candidate's cost, or None.

    If another rank arrives even later, an earlier arrival of this rank gains nothing.
    """
    arrival = grid.arrival
    for number, shift in enumerate([*shifts, last.shift]):
        gain = gain_of(grid, arrival, last.shift, grid.waiting(arrival))
        if gain > last.pattern.gain_ns / 2:
            return number - 1 if number else None
        arrival = arrival - shift
    return len(shifts) - 1 if shifts else None


# Steady patterns: the same ranks for a whole phase.


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
    """Yield the rank set of each phase. Neighbouring phases with equal sets are joined.

    Phases may change because of other ranks while this set stays the same.
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
    """Return the rank set that explains most of the wait of some instances."""

    def gain(one: RankSet) -> float:
        shift = np.zeros_like(arrival)
        shift[:, columns] = one.shift[:, None]
        return gain_of(grid, arrival, shift, waits)

    best, most = None, 0.0
    for one in rank_sets.candidates(grid, arrival[:, columns], SURE / tests):
        explained = gain(one)
        # A more complex set must explain more wait.
        if explained > (HARDER[one.kind] * most if best is not None else 0.0):
            best, most = one, explained
    return _needed(best, most, gain) if best is not None else None


def _needed(one: RankSet, most: float, gain: Callable[[RankSet], float]) -> RankSet:
    """Remove the ranks from a set for which nobody waits, as in a broadcast."""
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


# Trends: the lateness of one rank grows or shrinks steadily.


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


# Outliers: few instances with much of the wait.


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


# Periodic patterns.


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
        # No rank stands out: shrink the spread of these instances to that of the other instances.
        usual = float(np.median(waits[~high[kind]]) / max(np.median(waits[columns]), 1.0))
        shift[:, columns] = (1 - min(usual, 1.0)) * (
            arrival[:, columns] - np.nanmin(arrival[:, columns], 0)
        )
    gain = gain_of(grid, arrival, shift, waits)
    found = Pattern("periodic", ranks, late, columns, gain, p, every.length, offsets)
    yield _Candidate(replace(found, grows=grows), shift)


# Moving patterns: lateness passes from rank to rank.


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
    """Return for each instance the median arrival of all rows except one."""
    others = arrival.copy()
    others[row, np.arange(arrival.shape[1])] = np.nan
    return np.asarray(median_of(others))


def _sporadic(grid: Grid, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    """Yield the rank with far more costly occasional lateness than other ranks, if any."""
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
    """Return the p-value that one rank is last in so many of the costly instances.

    Repeated events of the same rank within NEAR instances count once.
    """
    from scipy import special

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
    return min(float(special.bdtrc(hits - 1, count, 1 / ranks)) * ranks, 1.0)


def _notable(late: Float, chosen: Bool) -> Bool:
    """Return the instances in which a rank is late by at least half of the costliest lateness."""
    order = np.sort(late[chosen])[::-1]
    total = np.cumsum(order)
    heavy = order[: int(np.searchsorted(total, total[-1] / 2)) + 1]
    return np.asarray(chosen & (late > float(np.median(heavy)) / 2))
