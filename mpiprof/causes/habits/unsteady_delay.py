"""Delays that pass from rank to rank, and rare delays of one rank.

    line       row = start + speed * number, on a circle    row 3 |      x      x
    order      the same rows after each `period` columns        2 |    x      x
    any way    neighbouring rows, at any speed or to and fro    1 |  x      x
                                                                0 |x      x
                                                                  +--------------- columns
On its way a delay strikes one row at a time, or a profile of rows around its centre.

A row that wanders is late for a while by chance. So evidence comes from turns: the next row on the
way is late as well. Rows that are late in random order turn back in two thirds of their moves
(Bienaymé 1874), and a delay on its way turns rarely.

    rare       one row in most of the costly columns        row 2 |  x   x  x   x
                                                                1 |    x
                                                                0 |           x
                                                                  +--------------- columns
Accidents happen to any rank. If most of the costly columns are of one rank, its delays have a cause
of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mpiprof.account.row_order import find_medians, find_upper_medians
from mpiprof.causes.habits.significance import p_apart_from_others
from mpiprof.causes.habits.work_matrix import column_medians
from mpiprof.trace.types import Bool, Float, Int

MIN_COLUMNS = 12
MAX_COLUMNS = 4096  # of a long run
MIN_ROWS = 4  # of a line or any way
MIN_TURNS = 6  # rows on a line, one after the other
FINE_SPEEDS = 16  # speeds tried for each frequency of the series
MAX_PERIOD = 64
MIN_REPEATS = 3  # of a period
MIN_EXCESS = 0.25  # of the waiting, beyond what the most frequent row explains
MIN_HIT_SHARE = 0.6  # of the waiting of a class of columns, for its row
MIN_MOVES = 10  # on any way
MAX_REACH = 0.25  # usual length of a move, over the number of rows
MIN_BACKWARD_SHARE = 0.3  # of the moves, from which a delay moves to and fro
MIN_ALIGNED_SHARE = 0.5  # of the variance within columns, that a profile explains
NEAR_ROWS = 2  # on both sides of the latest row, whose lateness shows the centre
BINS_PER_ROW = 4  # of a profile
MIN_EVENTS = 3  # late columns of a rank that is blamed
MAX_GAP = 4  # columns within which repeated delays of a rank are one event
MIN_APART = 5  # late columns, from which a rank's lateness is compared with other ranks'


@dataclass(frozen=True)
class Way:
    """Way of a delay. due: row in each column, or -1. p: p-value.

    profile: lateness by row and column in ns, None for one row at a time. period, offsets: of an
    order. step: rows between two turns on a line. speed: rows per column. reverses: whether the
    delay moves to and fro.
    """

    due: Int
    p: float
    profile: Float | None = None
    period: int | None = None
    offsets: tuple[int, ...] = ()
    step: int | None = None
    speed: float | None = None
    reverses: bool = False


def find_ways(work_ns: Float, number: Int, waits: Float, least_ns: float) -> Iterator[Way]:
    """Yield the ways that a delay may take, the simplest first.

    number: of each column. waits: waiting of each column. least_ns: least lateness that counts.
    """
    rows, count = work_ns.shape
    if count < MIN_COLUMNS or rows < 2 or not waits.sum() > 0:
        return
    spread = np.nanmax(work_ns, 0) - np.nanmin(work_ns, 0)
    last = np.where(spread > least_ns, np.nanargmax(work_ns, 0), -1)
    has_profiles = rows >= MIN_ROWS and count <= MAX_COLUMNS and not np.isnan(work_ns).any()
    late = work_ns - column_medians(work_ns)
    on_any_way = _find_any_way(late) if has_profiles else None
    if on_any_way is not None and on_any_way.reverses:
        yield on_any_way
    order = _find_order(last, number, waits, rows)
    if order is not None:
        yield order
    elif has_profiles:
        yield from _find_line(late, last, number)
    if on_any_way is not None and not on_any_way.reverses:
        yield on_any_way


def _find_order(last: Int, number: Int, waits: Float, rows: int) -> Way | None:
    """Return the order of rows that repeats itself. Each half of the run predicts the other one."""
    longest = min(MAX_PERIOD, len(last) // (2 * MIN_REPEATS))
    usual = np.bincount(last[last >= 0], waits[last >= 0], rows).max() / waits.sum()
    first_half = np.arange(len(last)) < len(last) // 2
    scores = np.zeros(longest + 1)
    for length in range(2, longest + 1):
        class_of = number % length
        for half in (first_half, ~first_half):
            due = _find_rows_due(last, class_of, waits, rows, half)[class_of]
            scores[length] += waits[~half & (last >= 0) & (due == last)].sum()
    scores /= waits.sum()
    best = float(scores.max(initial=0.0))
    if best < min(usual + MIN_EXCESS, 1 - (1 - usual) / 2):
        return None
    period = int(np.flatnonzero(scores >= 0.9 * best)[0])
    rows_due = _find_rows_due(last, number % period, waits, rows, last >= 0)
    offsets = tuple(np.flatnonzero(rows_due >= 0).tolist())
    if not offsets:
        return None
    due = rows_due[number % period]
    p = _find_chance_of_hits((last == due)[due >= 0], last, rows, longest)
    step = None
    if len(offsets) == period == rows:
        steps = np.unique(np.diff(rows_due, append=rows_due[:1]) % rows)
        step = int(steps[0]) if len(steps) == 1 else None
    return Way(due, p, period=None if step else period, offsets=offsets * (not step), step=step)


def _find_rows_due(last: Int, class_of: Int, waits: Float, rows: int, chosen: Bool) -> Int:
    """Return the row with most of the waiting of each class of columns, or -1."""
    classes = int(class_of.max()) + 1
    good = chosen & (last >= 0)
    weight = np.bincount(class_of[good] * rows + last[good], waits[good], classes * rows)
    weight = weight.reshape(classes, rows)
    total = weight.sum(1)
    # A class with hardly any waiting needs no row.
    is_clear = (weight.max(1) >= MIN_HIT_SHARE * total) & (total > 0.1 * total.sum() / classes)
    return np.where(is_clear, weight.argmax(1), -1)


def _find_line(late: Float, last: Int, number: Int) -> Iterator[Way]:
    """Yield the line that the delay follows: one row at a time, and with a profile."""
    rows = len(late)
    speed, centre = find_motion(late, number)
    if abs(speed) * (number[-1] - number[0]) + 1 < MIN_TURNS:
        return
    due = np.round(centre).astype(np.int64) % rows
    turn = np.cumsum(np.diff(due, prepend=due[:1]) != 0)
    turns = int(turn[-1]) + 1
    # A turn counts once, because a wandering row is last for a while as well.
    hits = 2 * np.bincount(turn, last == due, turns) > np.bincount(turn, minlength=turns)
    # Lines with as many turns that differ in their direction, speed or start.
    p = _find_chance_of_hits(hits, last, rows, FINE_SPEEDS * turns * rows)
    is_whole = abs(speed) <= 1 or speed == round(speed)
    if is_whole:
        yield Way(due, p, step=int(np.sign(speed) * max(round(abs(speed)), 1)) % rows)
    distance = np.mod(np.arange(rows)[:, None] - centre + rows / 2, rows) - rows / 2
    profile = _find_profile(late, distance, rows / 2)
    if profile is not None:
        yield Way(due, p, profile, speed=speed)


def find_motion(late: Float, number: Int) -> tuple[float, Float]:
    """Return the speed in rows per column, and the centre in each column.

    The first harmonic of the lateness over the rows turns at the speed of the delay.
    """
    rows, since = len(late), number - number[0]
    harmonic = np.exp(2j * np.pi * np.arange(rows) / rows) @ late
    span = int(since[-1]) + 1
    largest, turns = -1.0, 0.0
    # The frequencies of a Fourier transform are 1 / span apart, so those between need others.
    for fraction in np.arange(FINE_SPEEDS) / FINE_SPEEDS:
        series = np.zeros(span, np.complex128)
        np.add.at(series, since, harmonic * np.exp(-2j * np.pi * fraction / span * since))
        sums = np.abs(np.fft.fft(series))
        best = int(np.argmax(sums))
        if sums[best] > largest:
            largest, turns = float(sums[best]), (best + fraction) / span
    speed = (np.mod(turns + 0.5, 1.0) - 0.5) * rows
    if abs(speed) > 0.5 and abs(speed - round(speed)) * span < rows / FINE_SPEEDS:
        speed = float(round(speed))
    at_start = np.angle((harmonic * np.exp(-2j * np.pi * speed / rows * since)).sum())
    return speed, np.mod(at_start * rows / (2 * np.pi) + speed * since, rows)


def _find_any_way(late: Float) -> Way | None:
    """Return the way from row to row at any speed, or None."""
    rows = len(late)
    due = late.argmax(0)
    visited = due[np.flatnonzero(np.diff(due, prepend=-1))]
    moves = np.diff(visited)
    if len(moves) < MIN_MOVES or len(np.unique(visited)) < MIN_ROWS:
        return None
    if np.median(np.abs(moves)) > max(MAX_REACH * rows, 1):
        return None
    index = np.arange(rows)[:, None]
    weight = np.where(np.abs(index - due) <= NEAR_ROWS, np.maximum(late, 0.0), 0.0)
    centre = (weight * index).sum(0) / np.maximum(weight.sum(0), 1e-9)
    profile = _find_profile(late, index - centre, float(rows))
    if profile is None:
        return None
    forward = float((moves > 0).mean())
    reverses = min(forward, 1 - forward) >= MIN_BACKWARD_SHARE
    return Way(due, _find_chance_of_order(moves), profile, reverses=reverses)


def _find_profile(late: Float, distance: Float, reach: float) -> Float | None:
    """Return the median lateness at each distance from the centre, for each row and column.

    It falls with the distance, and the far half of the rows is not late. Returns None if it
    explains little. reach: largest distance.
    """
    bins = np.round(np.abs(distance) * BINS_PER_ROW).astype(np.int64)
    count, cells = int(reach * BINS_PER_ROW) + 2, (bins.ravel(), late.ravel())
    medians = (find_medians(*cells, count) + find_upper_medians(*cells, count)) / 2
    medians[np.bincount(cells[0], minlength=count) == 0] = np.nan
    far = medians[(int(bins.max()) + 1) // 2 :]
    falling = np.fmin.accumulate(medians - np.nanmedian(far))
    profile: Float = falling[bins]
    spread = float(((late - late.mean(0)) ** 2).sum())
    residual = late - profile
    is_aligned = ((residual - residual.mean(0)) ** 2).sum() <= (1 - MIN_ALIGNED_SHARE) * spread
    return np.maximum(profile, 0.0) if is_aligned else None


def _find_chance_of_hits(hits: Bool, last: Int, rows: int, tests: int) -> float:
    """Return the binomial p-value of the number of turns in which the row due is last."""
    from scipy import special

    known_rows = last[last >= 0]
    if not len(hits) or not len(known_rows):
        return 1.0
    usual = np.bincount(known_rows, minlength=rows).max() / len(known_rows)
    return min(float(special.bdtrc(int(hits.sum()) - 1, len(hits), usual)) * tests, 1.0)


def _find_chance_of_order(moves: Int) -> float:
    """Return the p-value that rows in random order turn back so rarely."""
    from scipy import special

    count = len(moves) + 1
    turns = int((moves[1:] * moves[:-1] < 0).sum())
    deviation = np.sqrt((16 * count - 29) / 90)
    return float(special.ndtr((turns + 0.5 - 2 * (count - 2) / 3) / deviation))


def find_rare_columns(work_ns: Float, waits: Float, row: int) -> Int:
    """Return the columns in which a row is last, by at least half of its costliest lateness."""
    late = np.nan_to_num(work_ns[row] - column_medians(np.delete(work_ns, row, 0)))
    is_last = (np.nanargmax(work_ns, 0) == row) & (waits > 0)
    if not is_last.any():
        return np.zeros(0, np.int64)
    columns = np.flatnonzero(is_last & (late > _find_costly_median(late[is_last]) / 2))
    return columns if len(columns) >= MIN_EVENTS else columns[:0]


def find_chance_of_rare(work_ns: Float, waits: Float, row: int, count: int) -> float:
    """Return the p-value that a row is late in so many columns as other rows are.

    Waiting may count delays of the awaited rank only, so the spread of the ranks is tested, too.
    """
    last = np.nanargmax(work_ns, 0)
    spread = np.nanmax(work_ns, 0) - column_medians(work_ns)
    p = max(_find_chance_of_events(costs, last, row, len(work_ns)) for costs in (waits, spread))
    return min(p, _find_chance_apart(work_ns, row, count))


def _find_chance_apart(work_ns: Float, row: int, count: int) -> float:
    """Return the p-value that a row is as late as other rows in as many of their latest columns.

    Ranks that wander are late for a while, too, each at another time.
    """
    if count < MIN_APART:
        return 1.0
    late = np.nan_to_num(work_ns - column_medians(work_ns))
    largest = np.median(np.partition(late, -count, axis=1)[:, -count:], axis=1)
    return p_apart_from_others(largest[[row]], np.delete(largest, row))


def _find_chance_of_events(costs: Float, last: Int, row: int, ranks: int) -> float:
    """Return the p-value that one rank is last in so many of the costly columns.

    costs: of each column. Repeated events of the same rank within MAX_GAP columns count once.
    """
    from scipy import special

    events = np.flatnonzero(costs > _find_costly_median(costs) / 2)
    count = hits = 0
    newest: dict[int, int] = {}
    for column, rank in zip(events.tolist(), last[events].tolist(), strict=True):
        if column - newest.get(rank, -MAX_GAP - 1) > MAX_GAP:
            count += 1
            hits += rank == row
        newest[rank] = column
    return min(float(special.bdtrc(hits - 1, count, 1 / ranks)) * ranks, 1.0)


def find_turns(work_ns: Float) -> tuple[Int, Float, float]:
    """Return the last row of each column, its lateness, and the p-value that so few rows are last.

    Under the null hypothesis, each next row is any other row. A row that is last in consecutive
    columns counts once, because a wandering row is last for a while.
    """
    from scipy import special

    row = np.nanargmax(work_ns, 0)
    late = np.nanmax(work_ns, 0) - column_medians(work_ns)
    rows, few, moves = len(work_ns), len(np.unique(row)), np.count_nonzero(np.diff(row))
    p = float(special.comb(rows, few)) * ((few - 1) / max(rows - 1, 1)) ** moves
    return row, np.nan_to_num(late), min(p, 1.0)


def _find_costly_median(values: Float) -> float:
    """Return the median of the largest values that add up to half of the sum."""
    order = np.sort(values)[::-1]
    total = np.cumsum(order)
    return float(np.median(order[: int(np.searchsorted(total, total[-1] / 2)) + 1]))
