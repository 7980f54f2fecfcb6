"""Patterns of lateness: the share of a call site's wait that each explains, and its significance.

A pattern states which ranks are late, when and by how much. It explains the wait that would vanish
without this lateness. The best pattern is subtracted from the work and the search is repeated.
So mixed causes are separated and no wait is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mpiprof.diagnosis import onsets, outliers, trends
from mpiprof.diagnosis.costliest_set import MAX_P, compute_gain, find_costliest_set
from mpiprof.diagnosis.moving_patterns import find_moving
from mpiprof.diagnosis.pattern import Candidate, Pattern
from mpiprof.diagnosis.phases import MAX_PERIODIC_P, find_period
from mpiprof.diagnosis.rank_sets import RankSet
from mpiprof.diagnosis.sporadic_lateness import find_sporadic_rank
from mpiprof.diagnosis.trends import Trend
from mpiprof.diagnosis.work_matrix import WorkMatrix
from mpiprof.trace.types import Float, Int

MIN_SHARE = 0.05  # minimum share of the wait that a pattern must explain
MAX_PATTERNS = 5  # maximum number of patterns per call site
MAX_OUTLIER_P = 0.02  # the same of outliers, which must have much of the wait besides
NEAR_BEST = 0.9  # a simpler pattern wins if it explains this share of the best one's wait
MIN_LATE_SHARE = 0.9  # minimum share of the instances for lateness that varies
MIN_SPORADIC_SHARE = 0.2  # minimum share of the wait that a sporadic rank explains beyond chance


def find_patterns(matrix: WorkMatrix) -> tuple[list[Pattern], float]:
    """Return the patterns of a call site in order of detection, and the wait left unexplained.

    The gains and the remainder sum to the total wait (`WorkMatrix.compute_waiting`, in ns).
    """
    work_ns = matrix.work_ns
    if matrix.instance_count == 1:
        return _single_instance_pattern(matrix)
    whole = unexplained_ns = float(matrix.compute_waiting(work_ns).sum())
    patterns: list[Pattern] = []
    shifts: list[Float] = []
    while whole > 0 and len(patterns) < MAX_PATTERNS:
        best = _choose_best(list(_find_candidates(matrix, work_ns)))
        if best is None or best.pattern.gain_ns < MIN_SHARE * whole:
            break
        prerequisite = _find_prerequisite(matrix, shifts, best)
        named = replace(best.pattern, prerequisite=prerequisite, shift_ns=best.shift)
        patterns.append(named)
        shifts.append(best.shift)
        work_ns = work_ns - best.shift
        unexplained_ns -= best.pattern.gain_ns
    return patterns, max(unexplained_ns, 0.0)


def _single_instance_pattern(matrix: WorkMatrix) -> tuple[list[Pattern], float]:
    """Return an outlier pattern if ranks work far longer than the others in the only instance."""
    waits = float(matrix.compute_waiting(matrix.work_ns).sum())
    ranks = outliers.find_late_ranks(matrix, matrix.work_ns)
    spread = float(np.nanmax(matrix.work_ns))
    if not ranks or spread <= matrix.least_ns or waits <= 0:
        return [], waits
    shift = matrix.work_ns - np.nanmin(matrix.work_ns)
    columns = np.zeros(1, np.int64)
    return [Pattern("outlier", ranks, spread, columns, waits, 1.0, shift_ns=shift)], 0.0


def _choose_best(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the first candidate that explains nearly as much as the best, or None."""
    most = max((candidate.pattern.gain_ns for candidate in candidates), default=0.0)
    good = (
        candidate for candidate in candidates if candidate.pattern.gain_ns >= NEAR_BEST * most > 0
    )
    return next(good, None)


def _find_candidates(matrix: WorkMatrix, work_ns: Float) -> Iterator[Candidate]:
    """Yield the significant candidates, the simplest first."""
    waits = matrix.compute_waiting(work_ns)
    growing = _growing_candidates(matrix, work_ns, waits)
    yield from (one for one in growing if one.is_better)
    yield from _steady_candidates(matrix, work_ns, waits)
    yield from (one for one in growing if not one.is_better)
    few, repeated = _outlier_candidates(matrix, work_ns, waits)
    of_ranks, of_nobody = _periodic_candidates(matrix, work_ns, waits)
    yield from few
    yield from of_ranks
    yield from find_moving(matrix, work_ns, waits)
    yield from repeated
    yield from of_nobody
    yield from _sporadic_candidates(matrix, work_ns, waits)


def _find_prerequisite(matrix: WorkMatrix, shifts: Sequence[Float], last: Candidate) -> int | None:
    """Return the index of the earlier shift that hides most of the last candidate's cost, or None.

    If another rank works even longer, less work of this rank gains nothing.
    """
    work_ns = matrix.work_ns
    for number, shift in enumerate([*shifts, last.shift]):
        gain = compute_gain(matrix, work_ns, last.shift, matrix.compute_waiting(work_ns))
        if gain > last.pattern.gain_ns / 2:
            return number - 1 if number else None
        work_ns = work_ns - shift
    return len(shifts) - 1 if shifts else None


# Steady patterns: the same ranks for a whole phase.


def _steady_candidates(matrix: WorkMatrix, work_ns: Float, waits: Float) -> Iterator[Candidate]:
    groups: dict[tuple[str, frozenset[int]], list[tuple[RankSet, Int]]] = {}
    spans, is_found = onsets.find_phases(matrix, work_ns), False
    for rank_set, columns in _phase_rank_sets(matrix, work_ns, waits, spans):
        groups.setdefault(rank_set.key, []).append((rank_set, columns))
    for of in groups.values():
        first = max((rank_set for rank_set, _ in of), key=lambda rank_set: rank_set.late_ns)
        refined = [onsets.refine_span(matrix, work_ns, first.rows, span, spans) for _, span in of]
        of = [(rank_set, c) for (rank_set, _), c in zip(of, refined, strict=True) if c is not None]
        if of:
            yield from _make_steady(matrix, work_ns, waits, of)
            is_found = True
    if not is_found and len(spans) > 1:
        # The lateness may vary so slowly that its phases have no sharp edges.
        columns = np.arange(matrix.instance_count)
        whole = find_costliest_set(matrix, work_ns, waits, columns, len(spans) + 1)
        if whole is not None and whole.kind in ("rank", "node") and _is_mostly_late(work_ns, whole):
            yield from _make_steady(matrix, work_ns, waits, [(whole, columns)])


def _is_mostly_late(work_ns: Float, rank_set: RankSet) -> bool:
    """Return whether ranks are late by a quarter of their usual lateness in nearly all columns."""
    late = onsets.rows_lateness(work_ns, rank_set.rows)
    return bool((late > rank_set.late_ns / 4).mean() >= MIN_LATE_SHARE)


def _make_steady(
    matrix: WorkMatrix, work_ns: Float, waits: Float, of: list[tuple[RankSet, Int]]
) -> Iterator[Candidate]:
    """Yield the candidate of one set of ranks in some phases, if it explains any wait."""
    first = max((rank_set for rank_set, _ in of), key=lambda rank_set: rank_set.late_ns)
    shift = np.zeros_like(work_ns)
    for rank_set, columns in of:
        shift[:, columns] = rank_set.shift[:, None]
    columns = np.unique(np.concatenate([columns for _, columns in of]))
    gain = compute_gain(matrix, work_ns, shift, waits)
    if gain <= 0:
        return
    late = float(
        np.average([rank_set.late_ns for rank_set, _ in of], weights=[len(c) for _, c in of])
    )
    ranks = tuple(matrix.ranks[first.rows].tolist())
    lateness = onsets.rows_lateness(work_ns, first.rows) * (-1 if first.kind == "early" else 1)
    phases = [columns for _, columns in of]
    chance = onsets.p_of_phases(lateness, phases) * len(work_ns)
    if first.kind == "rank":
        chance = min(chance, onsets.p_apart_in_phases(work_ns, first.rows, phases))
    p = max(*(rank_set.p for rank_set, _ in of), chance)
    if p > MAX_P:
        return
    each = first.kind == "each"
    cause = "rank" if each else first.kind
    levels = onsets.find_levels([(columns, rank_set.late_ns) for rank_set, columns in of])
    steady = Pattern(cause, ranks, late, columns, gain, p, node=first.node, each=each)
    yield Candidate(replace(steady, levels=levels), shift)


def _phase_rank_sets(
    matrix: WorkMatrix, work_ns: Float, waits: Float, spans: list[Int]
) -> Iterator[tuple[RankSet, Int]]:
    """Yield the rank set of each phase. Neighbouring phases with equal sets are joined.

    Phases may change because of other ranks while this set stays the same.
    """
    pending: tuple[RankSet, Int] | None = None
    for columns in spans:
        rank_set = find_costliest_set(matrix, work_ns, waits, columns, len(spans))
        if pending is not None and rank_set is not None and rank_set.key == pending[0].key:
            both = np.concatenate([pending[1], columns])
            whole = find_costliest_set(matrix, work_ns, waits, both, len(spans))
            late = onsets.rows_lateness(work_ns[:, both], rank_set.rows)
            if whole is not None and whole.key == rank_set.key and onsets.is_flat(late):
                pending = whole, both
                continue
        if pending is not None:
            yield pending
        pending = (rank_set, columns) if rank_set is not None else None
    if pending is not None:
        yield pending


# Trends: lateness that changes gradually.


def _growing_candidates(matrix: WorkMatrix, work_ns: Float, waits: Float) -> list[Candidate]:
    """Return the candidates of ranks whose lateness changes gradually, the simplest first.

    The rank that causes most wait may change together with others, as those of a node.
    """
    row = trends.find_costliest_row(work_ns, waits)
    found = trends.find_trend(work_ns, np.array([row]), MAX_P, matrix.least_ns)
    if found is None:
        return []
    candidates = [_make_growing(matrix, work_ns, waits, found)]
    late = np.flatnonzero(found.fitted[0] > found.fitted.max() / 2)
    several = find_costliest_set(matrix, work_ns, waits, late, 1)
    if several is None or several.kind not in ("rank", "node") or row not in several.rows:
        return candidates
    found = trends.find_trend(work_ns, several.rows, MAX_P, matrix.least_ns)
    if len(several.rows) > 1 and found is not None:
        candidates.append(_make_growing(matrix, work_ns, waits, found, several))
    return candidates


def _make_growing(
    matrix: WorkMatrix, work_ns: Float, waits: Float, trend: Trend, rank_set: RankSet | None = None
) -> Candidate:
    """Return the candidate of a trend of one rank, or of a set of ranks."""
    kind, node = ("rank", None) if rank_set is None else (rank_set.kind, rank_set.node)
    shift = np.zeros_like(work_ns)
    shift[np.ix_(trend.rows, trend.columns)] = trend.fitted[:, trend.columns]
    gain = compute_gain(matrix, work_ns, shift, waits)
    ranks = tuple(matrix.ranks[trend.rows].tolist())
    late = float(np.median(trend.fitted.mean(0)[trend.columns]))
    pattern = Pattern(kind, ranks, late, trend.columns, gain, trend.p, node=node)
    pattern = replace(pattern, grows=trend.ends, course=trend.course)
    return Candidate(pattern, shift, trend.is_better)


# Outliers: few instances with much of the wait.


def _outlier_candidates(
    matrix: WorkMatrix, work_ns: Float, waits: Float
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidate of few outliers, and that of more outliers of the same ranks."""
    columns = outliers.find_outliers(matrix, work_ns, waits)
    if not len(columns):
        return [], []
    p = outliers.tail_p_value(waits, len(columns))
    are_few = len(columns) <= outliers.max_outliers(len(waits))
    if not are_few:
        p *= outliers.p_of_same_ranks(columns, len(work_ns))
    if p > (MAX_OUTLIER_P if are_few else MAX_P):
        return [], []
    shift = np.zeros_like(work_ns)
    shift[:, columns] = work_ns[:, columns] - np.nanmin(work_ns[:, columns], 0)
    gain = float(waits[columns].sum())
    ranks = outliers.find_late_ranks(matrix, work_ns[:, columns])
    late = float(np.nanmax(work_ns[:, columns]))
    found = [Candidate(Pattern("outlier", ranks, late, columns, gain, p), shift)]
    return (found, []) if are_few else ([], found)


# Periodic patterns.


def _periodic_candidates(
    matrix: WorkMatrix, work_ns: Float, waits: Float
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the periodic candidate of some ranks, or that of no rank in particular."""
    signal = np.log(np.maximum(waits / max(len(work_ns) - 1, 1), matrix.least_ns))
    every = find_period(signal, matrix.number)
    if every is None:
        return [], []
    kind = matrix.number % every.length
    counts = np.bincount(kind, minlength=every.length)
    mean = np.bincount(kind, waits, every.length) / np.maximum(counts, 1)
    high = mean > (mean.max() + mean[counts > 0].min()) / 2
    columns = np.flatnonzero(high[kind])
    if len(columns) in (0, matrix.instance_count):
        return [], []
    offsets = tuple(np.flatnonzero(high & (counts > 0)).tolist())
    rank_set = find_costliest_set(matrix, work_ns, waits, columns, 1)
    if rank_set is None:
        rank_set, columns = _find_periodic_phase(matrix, work_ns, waits, columns)
    shift = np.zeros_like(work_ns)
    ranks: tuple[int, ...] = ()
    late, p = float(np.median(np.nanmax(work_ns[:, columns], 0))), MAX_PERIODIC_P
    row = trends.find_costliest_row(work_ns[:, columns], waits[columns])
    grown = trends.find_trend(work_ns[:, columns], np.array([row]), MAX_P, matrix.least_ns)
    grows = course = None
    # The lateness of a trend varies, so it is significant without a trend, too.
    if (
        grown is not None
        and grown.is_better
        and (rank_set is None or rank_set.rows.tolist() == [row])
    ):
        shift[row, columns] = grown.fitted[0]
        ranks = (int(matrix.ranks[row]),)
        late, p = float(np.median(grown.fitted)), grown.p
        grows, course = grown.ends, grown.course
    elif rank_set is not None and rank_set.kind not in ("gradient", "each"):
        shift[:, columns] = rank_set.shift[:, None]
        ranks, late, p = tuple(matrix.ranks[rank_set.rows].tolist()), rank_set.late_ns, rank_set.p
    else:
        # No rank stands out: shrink the spread of these instances to that of the other instances.
        usual = float(np.median(waits[~high[kind]]) / max(np.median(waits[columns]), 1.0))
        shift[:, columns] = (1 - min(usual, 1.0)) * (
            work_ns[:, columns] - np.nanmin(work_ns[:, columns], 0)
        )
    gain = compute_gain(matrix, work_ns, shift, waits)
    pattern = Pattern("periodic", ranks, late, columns, gain, p, every.length, offsets)
    found = [Candidate(replace(pattern, grows=grows, course=course), shift)]
    return (found, []) if ranks else ([], found)


def _find_periodic_phase(
    matrix: WorkMatrix, work_ns: Float, waits: Float, columns: Int
) -> tuple[RankSet | None, Int]:
    """Return the costliest set of ranks of a phase of some columns, and the columns of the phase.

    Returns None and all columns if no set is significant.
    """
    best, chosen, most = None, columns, 0.0
    spans = onsets.split_phases(matrix, work_ns[:, columns])
    for span in spans:
        found = find_costliest_set(matrix, work_ns, waits, columns[span], len(spans))
        if found is None or found.kind != "rank" or not found.late_ns * len(span) > most:
            continue
        late = onsets.rows_lateness(work_ns[:, columns], found.rows)
        chance = onsets.p_of_phases(late, [span]) * len(work_ns)
        apart = onsets.p_apart_in_phases(work_ns[:, columns], found.rows, [span])
        if min(chance, apart) <= MAX_P:
            best, chosen, most = found, columns[span], found.late_ns * len(span)
    return best, chosen


# Sporadic lateness of one rank.


def _sporadic_candidates(matrix: WorkMatrix, work_ns: Float, waits: Float) -> Iterator[Candidate]:
    """Yield the rank with far more costly occasional lateness than other ranks, if any."""
    found = find_sporadic_rank(work_ns, waits)
    if found is None:
        return
    shift = np.zeros_like(work_ns)
    shift[found.row, found.columns] = found.late_ns
    gain = compute_gain(matrix, work_ns, shift, waits) * (1.0 - found.usual_share)
    is_costly = gain >= MIN_SPORADIC_SHARE * float(waits.sum())
    if found.p <= MAX_P and is_costly and found.late_ns > matrix.least_ns:
        ranks = (int(matrix.ranks[found.row]),)
        yield Candidate(Pattern("rank", ranks, found.late_ns, found.columns, gain, found.p), shift)
