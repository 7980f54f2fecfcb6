"""The selector's log as tables: its choices while the program ran."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mpiprof.trace.selector_log import OPTIONAL_NUMBERS, REQUIRED_FIELDS, read
from mpiprof.trace.trace import Trace


def make_selector_tables(trace: Trace) -> dict[str, pd.DataFrame]:
    """Return a table for each type of log entry, in order of writing; all empty without `auto`.

    The columns are REQUIRED_FIELDS and OPTIONAL_NUMBERS of trace/selector_log.py. Table `key` also
    has `sites` (list of texts as in `events`).
    """
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in REQUIRED_FIELDS}
    for line in read(trace.path):
        rows[line.pop("kind")].append(line)
    more = {"key": ("sites",)}
    return {
        kind: pd.DataFrame(
            found, columns=[*REQUIRED_FIELDS[kind], *OPTIONAL_NUMBERS[kind], *more.get(kind, ())]
        )
        for kind, found in rows.items()
    }
