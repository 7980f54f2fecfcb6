"""Rotation: lateness that moves from rank to rank in a pattern that predicts the next late rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Float, Int

LONGEST = 64  # maximum number of instances per repetition
FEWEST = 12  # instances
REPEATS = 3  # minimum number of repetitions
BEYOND = 0.25  # minimum share of the wait beyond what chance and the most frequent rank explain
SHORTEST_TURN = 3  # minimum number of instances for which a rank stays last
FEWEST_TURNS = 4
EVENLY = 0.8  # minimum share of moves that have the same step
HITS = 0.6  # minimum share of a class's wait for its rank; otherwise the class has no rank


@dataclass(frozen=True)
class Turns:
    """Rank due in each instance by a rotation.

    row: late row of each instance, or -1. period, offsets: see diagnosis/patterns.py. step: number
    of rows between the late rows of consecutive instances, if constant.
    """

    row: Int
    p: float
    period: int | None
    offsets: tuple[int, ...]
    step: int | None = None


def turns(last: Int, number: Int, waits: Float, rows: int) -> Turns | None:
    """Return the rotation of the last rank, or None.

    last: row of the last rank in each instance, -1 if unknown. waits: wait of each instance.
    """
    if len(last) < FEWEST or waits.sum() <= 0 or rows < 2:
        return None
    usual = max(np.bincount(last[last >= 0], waits[last >= 0], rows)) / waits.sum()
    return (
        _repeating(last, number, waits, rows, usual)
        or _stepping(last, number, waits, rows, usual)
        or _walking(last, waits, rows)
    )


def _repeating(last: Int, number: Int, waits: Float, rows: int, usual: float) -> Turns | None:
    """Return a rotation that repeats after some instances.

    Each half of the run predicts the late rows of the other half.
    """
    longest = min(LONGEST, len(last) // (2 * REPEATS))
    half = np.arange(len(last)) < len(last) // 2
    best, length = 0.0, 0
    scores = np.zeros(longest + 1)
    for every in range(2, longest + 1):
        kind = number % every
        scores[every] = (
            _told(last, kind, waits, rows, every, half)
            + _told(last, kind, waits, rows, every, ~half)
        ) / waits.sum()
    best = float(scores.max(initial=0.0))
    if best < min(usual + BEYOND, 1 - (1 - usual) / 2):
        return None
    length = int(np.flatnonzero(scores >= 0.9 * best)[0])
    due = _due(last, number % length, waits, rows, length, np.ones(len(last), np.bool_))
    named = np.flatnonzero(due >= 0)
    if not len(named):
        return None
    row = due[number % length]
    return Turns(row, _chance(last, row, rows, longest), length, tuple(named.tolist()))


def _due(last: Int, kind: Int, waits: Float, rows: int, kinds: int, chosen: np.ndarray) -> Int:
    """Return the row with most of the wait of each class of instances, or -1."""
    good = chosen & (last >= 0)
    weight = np.bincount(kind[good] * rows + last[good], waits[good], kinds * rows)
    weight = weight.reshape(kinds, rows)
    top = weight.argmax(1)
    held = weight[np.arange(kinds), top]
    whole = weight.sum(1)
    # A class with hardly any wait needs no row.
    enough = (held >= HITS * whole) & (whole > 0.1 * weight.sum() / kinds)
    return np.where(enough, top, -1)


def _told(last: Int, kind: Int, waits: Float, rows: int, kinds: int, known: np.ndarray) -> float:
    """Return the wait in other instances for which the known ones predict the last row."""
    due = _due(last, kind, waits, rows, kinds, known)
    right = ~known & (last >= 0) & (due[kind] == last)
    return float(waits[right].sum())


def _stepping(last: Int, number: Int, waits: Float, rows: int, usual: float) -> Turns | None:
    """Return a rotation that moves by the same number of ranks in each instance."""
    if rows < 3:
        return None
    next_to = (np.diff(number) == 1) & (last[1:] >= 0) & (last[:-1] >= 0)
    steps = (last[1:] - last[:-1]) % rows
    weight = np.bincount(steps[next_to], waits[1:][next_to], rows)
    weight[0] = 0.0
    step = int(weight.argmax())
    if weight[step] < (usual + BEYOND) * waits[1:][next_to].sum() or not weight[step]:
        return None
    row = np.full(len(last), -1, np.int64)
    row[1:][next_to] = (last[:-1][next_to] + step) % rows
    if next_to[0]:
        row[0] = (last[1] - step) % rows
    return Turns(row, _chance(last, row, rows, rows), None, (), step)


def _walking(last: Int, waits: Float, rows: int) -> Turns | None:
    """Return a rotation that stays at a rank for some instances, then moves by a constant step."""
    if rows < 3:
        return None
    # A single other rank between two instances of one rank does not end the stretch.
    smooth = last.copy()
    stray = (last[:-2] == last[2:]) & (last[1:-1] != last[2:])
    smooth[1:-1][stray] = last[2:][stray]
    begins = np.flatnonzero(np.diff(smooth, prepend=-2))
    lengths = np.diff([*begins, len(smooth)])
    long = (lengths >= SHORTEST_TURN) & (smooth[begins] >= 0)
    if long.sum() < FEWEST_TURNS:
        return None
    at = smooth[begins[long]]
    steps = (at[1:] - at[:-1]) % rows
    counts = np.bincount(steps, minlength=rows)
    step = int(counts.argmax())
    row = np.repeat(np.where(long, smooth[begins], -1), lengths)
    held = float(waits[(row == last) & (row >= 0)].sum())
    if step == 0 or counts[step] < EVENLY * len(steps) or held < HITS * waits.sum():
        return None
    from scipy import special

    p = float(special.bdtrc(int(counts[step]) - 1, len(steps), 1 / rows)) * rows
    return Turns(row, min(p, 1.0), None, (), step)


def _chance(last: Int, row: Int, rows: int, tests: int) -> float:
    """Return the binomial p-value of the number of correct predictions."""
    from scipy import special

    told = (row >= 0) & (last >= 0)
    count, hits = int(told.sum()), int((last == row)[told].sum())
    if not count:
        return 1.0
    most = np.bincount(last[last >= 0], minlength=rows).max() / max(int((last >= 0).sum()), 1)
    return min(float(special.bdtrc(hits - 1, count, most)) * tests, 1.0)
