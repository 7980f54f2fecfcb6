"""Rotation: lateness that moves from rank to rank in a pattern that predicts the next late rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Float, Int

MAX_PERIOD = 64  # maximum number of instances per repetition
MIN_INSTANCES = 12  # instances
MIN_REPEATS = 3  # minimum number of repetitions
MIN_EXCESS = 0.25  # minimum share of the wait beyond what chance and the most frequent rank explain
MIN_TURN_LENGTH = 3  # minimum number of instances for which a rank stays last
MIN_TURNS = 4
MIN_TURNING = 3  # ranks; of two late ranks, the next one is always the other
MIN_EVENNESS = 0.8  # minimum share of moves that have the same step
MIN_HIT_SHARE = 0.6  # minimum share of a class's wait for its rank; otherwise the class has no rank


@dataclass(frozen=True)
class Rotation:
    """Rank due in each instance by a rotation.

    row: late row of each instance, or -1. period, offsets: see diagnosis/patterns.py. step: number
    of rows between the late rows of consecutive instances, if constant.
    """

    row: Int
    p: float
    period: int | None
    offsets: tuple[int, ...]
    step: int | None = None


def find_rotation(last: Int, number: Int, waits: Float, rows: int) -> Rotation | None:
    """Return the rotation of the last rank, or None.

    last: row of the last rank in each instance, -1 if unknown. waits: wait of each instance.
    """
    if len(last) < MIN_INSTANCES or waits.sum() <= 0 or rows < 2:
        return None
    usual = max(np.bincount(last[last >= 0], waits[last >= 0], rows)) / waits.sum()
    return (
        _find_repeating(last, number, waits, rows, usual)
        or _find_stepping(last, number, waits, rows, usual)
        or _find_pausing(last, waits, rows)
    )


def _find_repeating(
    last: Int, number: Int, waits: Float, rows: int, usual: float
) -> Rotation | None:
    """Return a rotation that repeats after some instances.

    Each half of the run predicts the late rows of the other half.
    """
    longest = min(MAX_PERIOD, len(last) // (2 * MIN_REPEATS))
    half = np.arange(len(last)) < len(last) // 2
    scores = np.zeros(longest + 1)
    for every in range(2, longest + 1):
        class_of = number % every
        for training in (half, ~half):
            due = _rows_due(last, class_of, waits, rows, every, training)
            right = ~training & (last >= 0) & (due[class_of] == last)
            scores[every] += waits[right].sum()
    scores /= waits.sum()
    best = float(scores.max(initial=0.0))
    if best < min(usual + MIN_EXCESS, 1 - (1 - usual) / 2):
        return None
    length = int(np.flatnonzero(scores >= 0.9 * best)[0])
    due = _rows_due(last, number % length, waits, rows, length, np.ones(len(last), np.bool_))
    named = np.flatnonzero(due >= 0)
    if not len(named):
        return None
    row = due[number % length]
    return Rotation(row, _binomial_p(last, row, rows, longest), length, tuple(named.tolist()))


def _rows_due(
    last: Int, class_of: Int, waits: Float, rows: int, class_count: int, chosen: np.ndarray
) -> Int:
    """Return the row with most of the wait of each class of instances, or -1."""
    good = chosen & (last >= 0)
    weight = np.bincount(class_of[good] * rows + last[good], waits[good], class_count * rows)
    weight = weight.reshape(class_count, rows)
    top = weight.argmax(1)
    whole = weight.sum(1)
    # A class with hardly any wait needs no row.
    enough = (weight.max(1) >= MIN_HIT_SHARE * whole) & (whole > 0.1 * weight.sum() / class_count)
    return np.where(enough, top, -1)


def _find_stepping(
    last: Int, number: Int, waits: Float, rows: int, usual: float
) -> Rotation | None:
    """Return a rotation that moves by the same number of ranks in each instance."""
    if rows < 3:
        return None
    next_to = (np.diff(number) == 1) & (last[1:] >= 0) & (last[:-1] >= 0)
    steps = (last[1:] - last[:-1]) % rows
    weight = np.bincount(steps[next_to], waits[1:][next_to], rows)
    weight[0] = 0.0
    step = int(weight.argmax())
    if weight[step] < (usual + MIN_EXCESS) * waits[1:][next_to].sum() or not weight[step]:
        return None
    row = np.full(len(last), -1, np.int64)
    row[1:][next_to] = (last[:-1][next_to] + step) % rows
    if next_to[0]:
        row[0] = (last[1] - step) % rows
    return Rotation(row, _binomial_p(last, row, rows, rows), None, (), step)


def _find_pausing(last: Int, waits: Float, rows: int) -> Rotation | None:
    """Return a rotation that stays at a rank for some instances, then moves by a constant step."""
    if rows < 3:
        return None
    # A single other rank between two instances of one rank does not end the stretch.
    smooth = last.copy()
    stray = (last[:-2] == last[2:]) & (last[1:-1] != last[2:])
    smooth[1:-1][stray] = last[2:][stray]
    begins = np.flatnonzero(np.diff(smooth, prepend=-2))
    lengths = np.diff([*begins, len(smooth)])
    long = (lengths >= MIN_TURN_LENGTH) & (smooth[begins] >= 0)
    if long.sum() < MIN_TURNS:
        return None
    at = smooth[begins[long]]
    if len(np.unique(at)) < MIN_TURNING:
        return None
    steps = (at[1:] - at[:-1]) % rows
    counts = np.bincount(steps, minlength=rows)
    step = int(counts.argmax())
    row = np.repeat(np.where(long, smooth[begins], -1), lengths)
    pause = float(waits[(row == last) & (row >= 0)].sum())
    if step == 0 or counts[step] < MIN_EVENNESS * len(steps) or pause < MIN_HIT_SHARE * waits.sum():
        return None
    from scipy import special

    p = float(special.bdtrc(int(counts[step]) - 1, len(steps), 1 / rows)) * rows
    return Rotation(row, min(p, 1.0), None, (), step)


def _binomial_p(last: Int, row: Int, rows: int, tests: int) -> float:
    """Return the binomial p-value of the number of correct predictions."""
    from scipy import special

    predicted = (row >= 0) & (last >= 0)
    count, hits = int(predicted.sum()), int((last == row)[predicted].sum())
    if not count:
        return 1.0
    most = np.bincount(last[last >= 0], minlength=rows).max() / max(int((last >= 0).sum()), 1)
    return min(float(special.bdtrc(hits - 1, count, most)) * tests, 1.0)
