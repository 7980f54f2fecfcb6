"""What the selector chose while the program ran, as tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mpiprof.trace.notes import KINDS, NUMBERS, read
from mpiprof.trace.trace import Trace


def selection(trace: Trace) -> dict[str, pd.DataFrame]:
    """Return a table for each kind of line, in the order of writing; all empty without `auto`.

    The columns are those of trace.notes' KINDS and NUMBERS; `key` has sites besides (list of
    texts as in `events`).
    """
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for line in read(trace.path):
        rows[line.pop("kind")].append(line)
    more = {"key": ("sites",)}
    return {
        kind: pd.DataFrame(found, columns=[*KINDS[kind], *NUMBERS[kind], *more.get(kind, ())])
        for kind, found in rows.items()
    }
