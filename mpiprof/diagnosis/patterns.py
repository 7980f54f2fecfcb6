"""Patterns of lateness: the share of a call site's wait that each explains, and its significance.

A pattern states which ranks are late, when and by how much. It explains the wait that would vanish
without this lateness. The best pattern is subtracted from the arrivals and the search is repeated.
So mixed causes are separated and no wait is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.diagnosis import onsets, outliers, rank_sets
from mpiprof.diagnosis.pattern import Pattern
from mpiprof.diagnosis.phases import MAX_PERIODIC_P, find_period
from mpiprof.diagnosis.rank_sets import RankSet
from mpiprof.diagnosis.rotation import find_rotation
from mpiprof.diagnosis.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Bool, Float, Int

MIN_SHARE = 0.05  # minimum share of the wait that a pattern must explain
MAX_PATTERNS = 5  # maximum number of patterns per call site
MAX_P = 0.002  # maximum p-value, corrected for all tests
MAX_OUTLIER_P = 0.02  # the same of outliers, which must have much of the wait besides
NEAR_BEST = 0.9  # a simpler pattern wins if it explains this share of the best one's wait
COMPLEXITY = {"rank": 1.1, "early": 1.1, "node": 1.1, "gradient": 1.05, "each": 1.2}
MAX_TRIED = 16  # larger sets are not tested rank by rank
MIN_RANK_GAIN = 0.02  # minimum share of the set's wait that each of its ranks must explain
MIN_EVENTS = 3  # minimum number of late instances for a rank to be blamed
MIN_LATE_SHARE = 0.9  # minimum share of the instances for lateness that varies
MAX_GAP = 4  # instances
MIN_SPORADIC_SHARE = 0.2  # minimum share of the wait that a sporadic rank explains beyond chance


@dataclass(frozen=True)
class _Candidate:
    pattern: Pattern
    shift: Float  # rows x instances of the arrival matrix


def find_patterns(grid: WorkMatrix) -> tuple[list[Pattern], float]:
    """Return the patterns of a call site in order of detection, and the wait left unexplained.

    The gains and the remainder sum to the total wait (`WorkMatrix.compute_waiting`, in ns).
    """
    arrival = grid.arrival
    if grid.instance_count == 1:
        return _single_instance_pattern(grid)
    whole = unexplained_ns = float(grid.compute_waiting(arrival).sum())
    patterns: list[Pattern] = []
    shifts: list[Float] = []
    while whole > 0 and len(patterns) < MAX_PATTERNS:
        best = _choose_best(list(_find_candidates(grid, arrival)))
        if best is None or best.pattern.gain_ns < MIN_SHARE * whole:
            break
        patterns.append(replace(best.pattern, prerequisite=_find_prerequisite(grid, shifts, best)))
        shifts.append(best.shift)
        arrival = arrival - best.shift
        unexplained_ns -= best.pattern.gain_ns
    return patterns, max(unexplained_ns, 0.0)


def _single_instance_pattern(grid: WorkMatrix) -> tuple[list[Pattern], float]:
    """Return an outlier pattern if ranks arrive far behind the others in the only instance."""
    waits = float(grid.compute_waiting(grid.arrival).sum())
    ranks = outliers.find_late_ranks(grid, grid.arrival)
    spread = float(np.nanmax(grid.arrival))
    if not ranks or spread <= grid.least_ns or waits <= 0:
        return [], waits
    return [Pattern("outlier", ranks, spread, np.zeros(1, np.int64), waits, 1.0)], 0.0


def _choose_best(candidates: Sequence[_Candidate]) -> _Candidate | None:
    """Return the first candidate that explains nearly as much as the best, or None."""
    most = max((candidate.pattern.gain_ns for candidate in candidates), default=0.0)
    good = (
        candidate for candidate in candidates if candidate.pattern.gain_ns >= NEAR_BEST * most > 0
    )
    return next(good, None)


def _find_candidates(grid: WorkMatrix, arrival: Float) -> Iterator[_Candidate]:
    """Yield the significant candidates, the simplest first."""
    waits = grid.compute_waiting(arrival)
    yield from _steady_candidates(grid, arrival, waits)
    yield from _growing_candidates(grid, arrival, waits)
    yield from _outlier_candidates(grid, arrival, waits)
    yield from _periodic_candidates(grid, arrival, waits)
    yield from _moving_candidates(grid, arrival, waits)
    yield from _sporadic_candidates(grid, arrival, waits)


def compute_gain(grid: WorkMatrix, arrival: Float, shift: Float, waits: Float) -> float:
    """Return the wait that vanishes if ranks arrive earlier by `shift`."""
    return float((waits - grid.compute_waiting(arrival - shift)).sum())


def _find_prerequisite(grid: WorkMatrix, shifts: Sequence[Float], last: _Candidate) -> int | None:
    """Return the index of the earlier shift that hides most of the last candidate's cost, or None.

    If another rank arrives even later, an earlier arrival of this rank gains nothing.
    """
    arrival = grid.arrival
    for number, shift in enumerate([*shifts, last.shift]):
        gain = compute_gain(grid, arrival, last.shift, grid.compute_waiting(arrival))
        if gain > last.pattern.gain_ns / 2:
            return number - 1 if number else None
        arrival = arrival - shift
    return len(shifts) - 1 if shifts else None


# Steady patterns: the same ranks for a whole phase.


def _steady_candidates(grid: WorkMatrix, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    groups: dict[tuple[str, frozenset[int]], list[tuple[RankSet, Int]]] = {}
    spans, is_found = onsets.find_phases(grid, arrival), False
    for rank_set, columns in _phase_rank_sets(grid, arrival, waits, spans):
        groups.setdefault(rank_set.key, []).append((rank_set, columns))
    for of in groups.values():
        first = max((rank_set for rank_set, _ in of), key=lambda rank_set: rank_set.late_ns)
        refined = [onsets.refine_span(grid, arrival, first.rows, span, spans) for _, span in of]
        of = [(rank_set, c) for (rank_set, _), c in zip(of, refined, strict=True) if c is not None]
        if of:
            yield from _make_steady(grid, arrival, waits, of)
            is_found = True
    if not is_found and len(spans) > 1:
        # The lateness may vary so slowly that its phases have no sharp edges.
        columns = np.arange(grid.instance_count)
        whole = _find_best_set(grid, arrival, waits, columns, len(spans) + 1)
        if whole is not None and whole.kind in ("rank", "node") and _is_mostly_late(arrival, whole):
            yield from _make_steady(grid, arrival, waits, [(whole, columns)])


def _is_mostly_late(arrival: Float, rank_set: RankSet) -> bool:
    """Return whether ranks are late by a quarter of their usual lateness in nearly all columns."""
    late = onsets.rows_lateness(arrival, rank_set.rows)
    return bool((late > rank_set.late_ns / 4).mean() >= MIN_LATE_SHARE)


def _make_steady(
    grid: WorkMatrix, arrival: Float, waits: Float, of: list[tuple[RankSet, Int]]
) -> Iterator[_Candidate]:
    """Yield the candidate of one set of ranks in some phases, if it explains any wait."""
    first = max((rank_set for rank_set, _ in of), key=lambda rank_set: rank_set.late_ns)
    shift = np.zeros_like(arrival)
    for rank_set, columns in of:
        shift[:, columns] = rank_set.shift[:, None]
    columns = np.unique(np.concatenate([columns for _, columns in of]))
    gain = compute_gain(grid, arrival, shift, waits)
    if gain <= 0:
        return
    late = float(
        np.average([rank_set.late_ns for rank_set, _ in of], weights=[len(c) for _, c in of])
    )
    ranks = tuple(grid.ranks[first.rows].tolist())
    lateness = onsets.rows_lateness(arrival, first.rows) * (-1 if first.kind == "early" else 1)
    chance = onsets.p_of_phases(lateness, [columns for _, columns in of]) * len(arrival)
    p = max(*(rank_set.p for rank_set, _ in of), chance)
    if p > MAX_P:
        return
    each = first.kind == "each"
    cause = "rank" if each else first.kind
    levels = onsets.find_levels([(columns, rank_set.late_ns) for rank_set, columns in of])
    steady = Pattern(cause, ranks, late, columns, gain, p, node=first.node, each=each)
    yield _Candidate(replace(steady, levels=levels), shift)


def _phase_rank_sets(
    grid: WorkMatrix, arrival: Float, waits: Float, spans: list[Int]
) -> Iterator[tuple[RankSet, Int]]:
    """Yield the rank set of each phase. Neighbouring phases with equal sets are joined.

    Phases may change because of other ranks while this set stays the same.
    """
    pending: tuple[RankSet, Int] | None = None
    for columns in spans:
        rank_set = _find_best_set(grid, arrival, waits, columns, len(spans))
        if pending is not None and rank_set is not None and rank_set.key == pending[0].key:
            both = np.concatenate([pending[1], columns])
            whole = _find_best_set(grid, arrival, waits, both, len(spans))
            late = onsets.rows_lateness(arrival[:, both], rank_set.rows)
            if whole is not None and whole.key == rank_set.key and onsets.is_flat(late):
                pending = whole, both
                continue
        if pending is not None:
            yield pending
        pending = (rank_set, columns) if rank_set is not None else None
    if pending is not None:
        yield pending


def _find_best_set(
    grid: WorkMatrix, arrival: Float, waits: Float, columns: Int, tests: int
) -> RankSet | None:
    """Return the rank set that explains most of the wait of some instances."""

    def gain(rank_set: RankSet) -> float:
        shift = np.zeros_like(arrival)
        shift[:, columns] = rank_set.shift[:, None]
        return compute_gain(grid, arrival, shift, waits)

    best, most = None, 0.0
    for rank_set in rank_sets.find_rank_sets(grid, arrival[:, columns], MAX_P / tests):
        explained = gain(rank_set)
        # A more complex set must explain more wait.
        if explained > (COMPLEXITY[rank_set.kind] * most if best is not None else 0.0):
            best, most = rank_set, explained
    return _needed_ranks(best, most, gain) if best is not None else None


def _needed_ranks(rank_set: RankSet, most: float, gain: Callable[[RankSet], float]) -> RankSet:
    """Remove the ranks from a set for which nobody waits, as in a broadcast."""
    if rank_set.kind not in ("rank", "early") or not 1 < len(rank_set.rows) <= MAX_TRIED:
        return rank_set
    for row in rank_set.rows.tolist():
        shift = rank_set.shift.copy()
        shift[row] = 0.0
        rows = rank_set.rows[rank_set.rows != row]
        less = replace(rank_set, rows=rows, shift=shift, late_ns=abs(float(shift[rows[0]])))
        if gain(less) >= most * (1 - MIN_RANK_GAIN):
            return _needed_ranks(less, most, gain)
    return rank_set


# Trends: the lateness of one rank grows or shrinks steadily.


def _growing_candidates(grid: WorkMatrix, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    onset = onsets.find_trend_onset(arrival, waits)
    for begin in dict.fromkeys((onset, 0)):  # the onset fits best
        tests = onsets.ONSETS if begin else 1
        trend = onsets.find_trend(arrival, waits, MAX_P / tests, begin)
        if trend is None or trend.fitted_line.max() <= grid.least_ns:
            continue
        columns = np.arange(begin, grid.instance_count)
        shift = np.zeros_like(arrival)
        shift[trend.row, columns] = trend.fitted_line
        gain = compute_gain(grid, arrival, shift, waits)
        ends = float(trend.fitted_line[0]), float(trend.fitted_line[-1])
        ranks = (int(grid.ranks[trend.row]),)
        late = float(np.median(trend.fitted_line))
        p = trend.p * tests
        yield _Candidate(Pattern("rank", ranks, late, columns, gain, p, grows=ends), shift)


# Outliers: few instances with much of the wait.


def _outlier_candidates(grid: WorkMatrix, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    columns = outliers.find_outliers(grid, arrival, waits)
    if not len(columns):
        return
    p = outliers.tail_p_value(waits)
    if p > MAX_OUTLIER_P:
        return
    shift = np.zeros_like(arrival)
    shift[:, columns] = arrival[:, columns] - np.nanmin(arrival[:, columns], 0)
    gain = float(waits[columns].sum())
    ranks = outliers.find_late_ranks(grid, arrival[:, columns])
    late = float(np.nanmax(arrival[:, columns]))
    yield _Candidate(Pattern("outlier", ranks, late, columns, gain, p), shift)


# Periodic patterns.


def _periodic_candidates(grid: WorkMatrix, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    signal = np.log(np.maximum(waits / max(len(arrival) - 1, 1), grid.least_ns))
    every = find_period(signal, grid.number)
    if every is None:
        return
    kind = grid.number % every.length
    counts = np.bincount(kind, minlength=every.length)
    mean = np.bincount(kind, waits, every.length) / np.maximum(counts, 1)
    high = mean > (mean.max() + mean[counts > 0].min()) / 2
    columns = np.flatnonzero(high[kind])
    if len(columns) in (0, grid.instance_count):
        return
    offsets = tuple(np.flatnonzero(high & (counts > 0)).tolist())
    rank_set = _find_best_set(grid, arrival, waits, columns, 1)
    shift = np.zeros_like(arrival)
    ranks: tuple[int, ...] = ()
    late, p = float(np.median(np.nanmax(arrival[:, columns], 0))), MAX_PERIODIC_P
    grown = onsets.find_trend(arrival[:, columns], waits[columns], MAX_P)
    grows = None
    # The lateness of a trend varies, so it is significant without a trend, too.
    if grown is not None and (rank_set is None or rank_set.rows.tolist() == [grown.row]):
        shift[grown.row, columns] = grown.fitted_line
        ranks, late, p = (int(grid.ranks[grown.row]),), float(np.median(grown.fitted_line)), grown.p
        grows = float(grown.fitted_line[0]), float(grown.fitted_line[-1])
    elif rank_set is not None and rank_set.kind not in ("gradient", "each"):
        shift[:, columns] = rank_set.shift[:, None]
        ranks, late, p = tuple(grid.ranks[rank_set.rows].tolist()), rank_set.late_ns, rank_set.p
    else:
        # No rank stands out: shrink the spread of these instances to that of the other instances.
        usual = float(np.median(waits[~high[kind]]) / max(np.median(waits[columns]), 1.0))
        shift[:, columns] = (1 - min(usual, 1.0)) * (
            arrival[:, columns] - np.nanmin(arrival[:, columns], 0)
        )
    gain = compute_gain(grid, arrival, shift, waits)
    pattern = Pattern("periodic", ranks, late, columns, gain, p, every.length, offsets)
    yield _Candidate(replace(pattern, grows=grows), shift)


# Moving patterns: lateness passes from rank to rank.


def _moving_candidates(grid: WorkMatrix, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    _, last = onsets.phase_signals(grid, arrival)
    row = np.where(last >= 0, np.nanargmax(arrival, 0), -1)
    rotation = find_rotation(row, grid.number, waits, len(arrival))
    if rotation is None:
        return
    columns = np.flatnonzero(rotation.row >= 0)
    at = (rotation.row[columns], columns)
    late = arrival[at] - _median_of_others(arrival[:, columns], at[0])
    amount = float(np.median(late))
    if amount <= grid.least_ns or rotation.p > MAX_P:
        return
    shift = np.zeros_like(arrival)
    shift[at] = np.clip(late, 0.0, amount)
    rows = np.unique(at[0])
    ranks = tuple(grid.ranks[rows].tolist())
    gain = compute_gain(grid, arrival, shift, waits)
    cause = "periodic" if len(rows) == 1 else "moving"
    period, offsets, step = rotation.period, rotation.offsets, rotation.step
    moves = Pattern(cause, ranks, amount, columns, gain, rotation.p, period, offsets, step)
    shows = int((late > amount / 2).sum())
    yield _Candidate(replace(moves, shows=shows), shift)


def _median_of_others(arrival: Float, row: Int) -> Float:
    """Return for each instance the median arrival of all rows except one."""
    other_arrivals = arrival.copy()
    other_arrivals[row, np.arange(arrival.shape[1])] = np.nan
    return np.asarray(column_medians(other_arrivals))


def _sporadic_candidates(grid: WorkMatrix, arrival: Float, waits: Float) -> Iterator[_Candidate]:
    """Yield the rank with far more costly occasional lateness than other ranks, if any."""
    whole, ranks = float(waits.sum()), len(arrival)
    if whole <= 0 or ranks < 2:
        return
    last = np.nanargmax(arrival, 0)
    weight = np.bincount(last, waits, ranks)
    row = int(np.argmax(weight))
    usual = float(np.median(np.delete(weight, row))) / max(float(weight[row]), 1.0)
    middle = column_medians(np.delete(arrival, row, 0))
    late = np.nan_to_num(arrival[row] - middle)
    columns = np.flatnonzero(_notable_instances(late, last == row))
    if len(columns) < MIN_EVENTS:
        return
    amount = float(np.median(late[columns]))
    shift = np.zeros_like(arrival)
    shift[row, columns] = amount
    gain = compute_gain(grid, arrival, shift, waits) * max(1.0 - usual, 0.0)
    # Waiting may count delays of the awaited rank only, so the spread of the ranks is tested too.
    spread = np.nanmax(arrival, 0) - column_medians(arrival)
    p = max(_p_of_events(costly, last, row, ranks) for costly in (waits, spread))
    if p <= MAX_P and gain >= MIN_SPORADIC_SHARE * whole and amount > grid.least_ns:
        yield _Candidate(Pattern("rank", (int(grid.ranks[row]),), amount, columns, gain, p), shift)


def _p_of_events(costs: Float, last: Int, row: int, ranks: int) -> float:
    """Return the p-value that one rank is last in so many of the costly instances.

    costs: of each instance. Repeated events of the same rank within MAX_GAP instances count once.
    """
    from scipy import special

    events = np.flatnonzero(costs > _heavy_median(costs) / 2)
    count = hits = 0
    newest: dict[int, int] = {}
    for column, of in zip(events.tolist(), last[events].tolist(), strict=True):
        if column - newest.get(of, -MAX_GAP - 1) > MAX_GAP:
            count += 1
            hits += of == row
        newest[of] = column
    return min(float(special.bdtrc(hits - 1, count, 1 / ranks)) * ranks, 1.0)


def _notable_instances(late: Float, chosen: Bool) -> Bool:
    """Return the instances in which a rank is late by at least half of the costliest lateness."""
    return np.asarray(chosen & (late > _heavy_median(late[chosen]) / 2))


def _heavy_median(values: Float) -> float:
    """Return the median of the largest values that add up to half of the sum."""
    order = np.sort(values)[::-1]
    total = np.cumsum(order)
    return float(np.median(order[: int(np.searchsorted(total, total[-1] / 2)) + 1]))
