"""Ranks that are late together: in all columns, at some levels, or with a gradual change.

    who     the set of ranks that explains most waiting (rank_set.py)
    when    the columns in which the first of them is late (course.py)

The ranks are those that explain most waiting in the columns in which one of them is late. If they
are several, their common lateness decides on the columns again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mpiprof.causes.habits.course import Trend, find_trend, split_levels
from mpiprof.causes.habits.habit import Habit, Remainder
from mpiprof.causes.habits.rank_set import MAX_P, RankSet, find_costliest_set, find_trimmed_means
from mpiprof.causes.habits.significance import p_apart_from_others, p_of_levels
from mpiprof.causes.habits.work_matrix import column_medians
from mpiprof.metrics.message_volume import column_means
from mpiprof.trace.types import Float, Int

MIN_LEVEL_SHARE = 0.25  # of the largest level, from which a level is late
MIN_LEVEL_RATIO = 1.5  # between separate levels of a habit


def find_lateness(work_ns: Float, rows: Int) -> Float:
    """Return how much longer some rows work than the other rows, by column."""
    others = np.delete(work_ns, rows, 0)
    return np.asarray(np.nan_to_num(column_means(work_ns[rows]) - column_medians(others)))


def find_sets(remainder: Remainder) -> Iterator[Habit]:
    """Yield the set of ranks that explains most waiting in all columns, if it is significant."""
    columns = np.arange(remainder.matrix.instance_count)
    rank_set = find_costliest_set(remainder.matrix, remainder.work_ns, remainder.waits, columns, 1)
    if rank_set is not None:
        yield from make_set(remainder, rank_set, [columns])


def find_level_sets(remainder: Remainder, row: int) -> Iterator[Habit]:
    """Yield the set of ranks that is late in the columns in which a row is."""
    late = find_lateness(remainder.work_ns, np.array([row]))
    spans, count = _find_late_spans(remainder, late)
    if not spans or count == 1:
        return
    columns = np.concatenate(spans)
    rank_set = find_costliest_set(
        remainder.matrix, remainder.work_ns, remainder.waits, columns, count
    )
    if rank_set is None:
        return
    if rank_set.kind in ("rank", "node") and len(rank_set.rows) > 1:
        spans, _ = _find_late_spans(remainder, find_lateness(remainder.work_ns, rank_set.rows))
    if spans:
        yield from make_set(remainder, rank_set, spans)


def _find_late_spans(remainder: Remainder, late: Float) -> tuple[list[Int], int]:
    """Return the columns of each late level, and the number of all levels."""
    spans = split_levels(late)
    level = [float(np.median(late[span])) for span in spans]
    least = max(MIN_LEVEL_SHARE * max(level), remainder.matrix.least_ns)
    return [span for span, by in zip(spans, level, strict=True) if by > least], len(spans)


def make_set(remainder: Remainder, rank_set: RankSet, spans: Sequence[Int]) -> Iterator[Habit]:
    """Yield the candidate of one set of ranks in some spans, if it is significant."""
    rows, work_ns = rank_set.rows, remainder.work_ns
    columns = np.concatenate(spans)
    sign = -1 if rank_set.kind == "early" else 1
    levels = [(span, rank_set.late_ns) for span in spans]
    shift = np.zeros_like(work_ns)
    shift[:, columns] = rank_set.shift[:, None]
    if len(spans) > 1:
        others = np.delete(work_ns, rows, 0)
        apart = work_ns[rows] - column_medians(others)
        for span in spans:
            shift[np.ix_(rows, span)] = find_trimmed_means(apart[:, span])[:, None]
        levels = [(span, abs(float(shift[rows[0], span[0]]))) for span in spans]
    late_ns = float(np.average([by for _, by in levels], weights=[len(of) for of, _ in levels]))
    p = rank_set.p
    if len(columns) < work_ns.shape[1]:
        p = max(p, _find_chance_of_spans(work_ns, rank_set, spans, sign))
    if p > MAX_P:
        return
    each = rank_set.kind == "each"
    yield remainder.make(
        "rank" if each else rank_set.kind,
        remainder.find_ranks(rows),
        shift,
        late_ns=late_ns,
        instances=columns,
        p=p,
        node=rank_set.node,
        each=each,
        levels=find_levels(levels),
    )


def _find_chance_of_spans(
    work_ns: Float, rank_set: RankSet, spans: Sequence[Int], sign: int
) -> float:
    """Return the p-value that wandering ranks would be so late in spans of the run.

    Spans are chosen for their lateness, so it is compared with the changes in the whole run, or
    with the latest spans of the other ranks.
    """
    ends = {int(edge) for span in spans for edge in (span[0], span[-1] + 1)}
    edges = sorted(ends & set(range(1, work_ns.shape[1])))
    late = sign * find_lateness(work_ns, rank_set.rows)
    stretches = np.searchsorted(edges, [int(span[0]) for span in spans], side="right")
    chance = float(p_of_levels(late, edges)[stretches].max()) * len(work_ns)
    if rank_set.kind != "rank":
        return chance
    centred = work_ns - column_medians(work_ns)
    parts = np.split(np.arange(work_ns.shape[1]), edges)
    level = np.stack([column_means(centred[:, part].T) for part in parts])
    least = np.stack([level[number] for number in stretches]).min(0)
    others = np.delete(level.max(0), rank_set.rows)
    return min(chance, p_apart_from_others(least[rank_set.rows], others))


def find_levels(spans: Sequence[tuple[Int, float]]) -> tuple[tuple[int, int, float], ...]:
    """Return first column, last column and lateness of each span; () if all are similar."""
    late = [abs(by) for _, by in spans]
    if max(late) < MIN_LEVEL_RATIO * min(late):
        return ()
    return tuple(sorted((int(of[0]), int(of[-1]), by) for of, by in spans))


def find_trends(remainder: Remainder, row: int) -> Iterator[Trend]:
    """Yield the trend of a row, and that of the ranks that are late with it, as those of a node."""
    least_ns = remainder.matrix.least_ns
    trend = find_trend(remainder.work_ns, np.array([row]), MAX_P, least_ns)
    if trend is None:
        return
    yield trend
    late = np.flatnonzero(trend.fitted[0] > trend.fitted.max() / 2)
    several = find_costliest_set(remainder.matrix, remainder.work_ns, remainder.waits, late, 1)
    if several is None or several.kind not in ("rank", "node") or row not in several.rows:
        return
    if len(several.rows) > 1:
        trend = find_trend(remainder.work_ns, several.rows, MAX_P, least_ns)
        if trend is not None:
            yield trend


def make_trend(remainder: Remainder, trend: Trend) -> Habit:
    """Return the habit of a trend."""
    shift = np.zeros_like(remainder.work_ns)
    shift[np.ix_(trend.rows, trend.columns)] = trend.fitted[:, trend.columns]
    return remainder.make(
        "rank",
        remainder.find_ranks(trend.rows),
        shift,
        late_ns=float(np.median(trend.fitted.mean(0)[trend.columns])),
        instances=trend.columns,
        p=trend.p,
        grows=trend.ends,
        course=trend.course,
    )
