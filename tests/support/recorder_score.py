"""Scores and waits as the recorder computes them, from programs/selection_score.c."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.compilation import of_the_core
from support.jobs import run

Int = NDArray[np.int64]


def score_program(folder: Path, header: str | None = None) -> Path:
    """Compile the recorder's statistics of instances into a separate program.

    header: generated natives.h, by default that of the tables in the checkout.
    """
    parts = ("selection/online/arrival", "base/memory", "base/operation")
    return of_the_core(folder / "score", parts, source="selection_score.c", header=header)


def recorded(
    program: Path, operation: str, sizes: tuple[int, int], root: int, arrival: Int, finish: Int
) -> Int:
    """Return the recorder's scores, sums of waits, and mean exits after the last arrival.

    The result has instances x 3 values. arrival, finish: ranks x instances, in ns.
    """
    pairs = np.stack([arrival.T, finish.T], axis=-1).ravel().tolist()
    words = [operation, *sizes, root, *pairs]
    lines = run([program, *map(str, words)], check=True).stdout.splitlines()
    return np.array([list(map(int, line.split())) for line in lines])
