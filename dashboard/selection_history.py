"""Log of the selector's trials and choices at a call site."""

from __future__ import annotations

import pandas as pd

from mpiprof.trace.sites import label_site

from .trace_data import TraceData


def selector_tables(data: TraceData) -> dict[str, pd.DataFrame]:
    """Return one table per record type (metrics/summary_tables.py); empty without `auto`."""
    tables: dict[str, pd.DataFrame] = data.trace.selection
    return tables


def callsite_keys(data: TraceData, callsite: int) -> list[str]:
    """Return the selector's keys of a call site, matched by operation and source location."""
    rows = data.callsites[data.callsites["callsite"] == callsite]
    keys = selector_tables(data)["key"]
    if not len(rows) or not len(keys):
        return []
    row = rows.iloc[0]
    labels = {label_site(site) for site in row["sites"]}
    labels |= {label.partition(" ")[0] for label in labels}
    chosen = [
        key
        for key, operation, sites in zip(keys["key"], keys["operation"], keys["sites"], strict=True)
        if operation == row["operation"]
        and any(s in labels or s.partition(" ")[0] in labels for s in sites)
    ]
    return list(dict.fromkeys(chosen))


def callsite_trials(data: TraceData, callsite: int) -> pd.DataFrame:
    """Return the selector's trials at a call site by phase and score: columns of "trial"."""
    trials = selector_tables(data)["trial"]
    selected = trials[trials["key"].isin(callsite_keys(data, callsite))]
    return selected.sort_values(["phase", "score_ns"], kind="stable", ignore_index=True)
