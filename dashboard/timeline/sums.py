"""Sums of calls over rows, bins and states, and the cells and legends made from the sums."""

from __future__ import annotations

import numpy as np

from mpiprof.trace.types import Array, Float, Int

from .tiles import SUMS

NO_STATE = 255  # state of a cell without any rank in a collective


def split_waiting(sums: Float) -> Float:
    """Split sums of one state into two states: waiting, and the rest."""
    count, inside, wait = sums[..., 0]
    split = np.zeros((len(SUMS), 2, *count.shape))
    split[0] = count
    split[1, 0] = split[2, 0] = wait
    np.maximum(inside - wait, 0, out=split[1, 1])
    return np.moveaxis(split, 1, 3)


def dominant_states(sums: Float, on: Array, width: int, colour: str) -> dict[str, Array]:
    """Return the dominant state of each row and bin, the share of all states, and of waiting.

    Shares are 0 to 255: `share` of the bin's time of the row's drawn rank, `wait` of the time
    inside.
    """
    shape = sums.shape[1:3]
    total, wait, longest = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    states = np.zeros(shape, np.uint8)
    # Several times as fast as argmax along the states.
    for state in np.flatnonzero(on).tolist():
        inside = sums[1, :, :, state]
        total += inside
        if colour != "waiting":
            wait += sums[2, :, :, state]
        np.copyto(states, state, where=inside > longest)
        np.maximum(longest, inside, out=longest)
    share = np.clip(total / width, 0, 1)
    is_used = total > 0
    waited = np.divide(wait, total, out=np.zeros_like(total), where=is_used)
    return {
        "state": np.where(is_used, states, NO_STATE).astype(np.uint8),
        # A non-empty cell stays visible, however short its time.
        "share": np.where(is_used, np.maximum(np.rint(share * 255), 1), 0).astype(np.uint8),
        "wait": np.rint(np.clip(waited, 0, 1) * 255).astype(np.uint8),
    }


def clip_segments(segments: Array, begin: int, end: int) -> tuple[Int, Int]:
    """Return the ns of each segment in a span, and the ns of waiting therein."""
    enter, leave = np.maximum(segments["enter"], begin), np.minimum(segments["exit"], end)
    waited = np.minimum(segments["enter"] + segments["wait"].astype(np.int64), leave)
    return np.maximum(leave - enter, 0), np.maximum(waited - enter, 0)


def sum_events(
    segments: Array, row: Int, state: Int, window: tuple[int, int], size: tuple[int, int]
) -> Float:
    """Return SUMS of single segments over a window: `size` rows x one bin x states."""
    good = state >= 0
    segments, cell = segments[good], row[good] * size[1] + state[good]
    inside, wait = clip_segments(segments, *window)
    starts = segments["enter"] >= window[0]
    sums = [np.bincount(cell, values, size[0] * size[1]) for values in (starts, inside, wait)]
    return np.array(sums, np.float64).reshape(len(SUMS), size[0], 1, size[1])


def make_legend(sums: Float, total_ns: float) -> list[dict[str, float]]:
    """Return calls that begin, time and wait in ns, and share of the whole, for each state."""
    return [
        {"count": count, "inside": inside, "wait": wait, "share": inside / max(total_ns, 1.0)}
        for count, inside, wait in sums.sum((1, 2)).T.tolist()
    ]
