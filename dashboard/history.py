"""What the selector did while the program ran: `selection.jsonl`, read with bounds.

The file comes with the trace and may be cut, damaged or crafted: a line that isn't what the
recorder writes is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from mpiprof.trace.sites import site_label

from .data import Data

FILE = "selection.jsonl"
LARGEST, LONGEST, MOST = 64 << 20, 1 << 16, 200_000  # bytes, of a line, lines
# kind: columns with their types
KINDS: dict[str, dict[str, type]] = {
    "key": {"key": str, "communicator": str, "operation": str},
    "phase": {"key": str, "phase": int, "instance": int, "why": str},
    "trial": {"key": str, "phase": int, "algorithm": str, "instances": int, "score_ns": float},
    "choice": {"key": str, "phase": int, "instance": int, "algorithm": str, "why": str},
    "end": {"key": str, "instances": int, "algorithm": str},
}
OPTIONAL = ("bytes", "size", "error_ns", "imbalance_ns", "score_ns", "probes", "saved_ns")


def selection(data: Data) -> dict[str, pd.DataFrame]:
    """Return a table for each kind of line; all empty where nothing was selected.

    `key` has besides the columns of KINDS: bytes, size, sites (list of text).
    """
    return data.once("selection", lambda: _read(data))


def _read(data: Data) -> dict[str, pd.DataFrame]:
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for line in _lines(data):
        kind = line.get("kind")
        if isinstance(kind, str) and kind in KINDS:
            row = _row(kind, line)
            if row is not None:
                rows[kind].append(row)
    columns = {kind: [*types, *OPTIONAL] for kind, types in KINDS.items()}
    return {
        kind: pd.DataFrame(found, columns=list(dict.fromkeys([*columns[kind], "sites"])))
        for kind, found in rows.items()
    }


def _lines(data: Data) -> Iterator[dict[str, Any]]:
    path = data.path / FILE
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return
        with path.open("rb") as file:
            for _ in range(MOST):
                line = file.readline(LONGEST)
                if not line.endswith(b"\n"):
                    return
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(found, dict):
                    yield found
    except OSError:
        return


def _row(kind: str, line: dict[str, Any]) -> dict[str, Any] | None:
    row: dict[str, Any] = {}
    for name, wanted in KINDS[kind].items():
        value = line.get(name)
        good = isinstance(value, str) if wanted is str else _number(value)
        if not good:
            return None
        row[name] = value[:300] if isinstance(value, str) else wanted(value)
    for name in OPTIONAL:
        if name not in row:
            row[name] = float(line[name]) if _number(line.get(name)) else float("nan")
    sites = line.get("sites")
    row["sites"] = [str(s)[:300] for s in sites[:64]] if isinstance(sites, list) else []
    return row


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18


def keys_of(data: Data, callsite: int) -> list[str]:
    """Return the selector's keys that a call site has, by its operation and places."""
    found = data.callsites[data.callsites["callsite"] == callsite]
    keys = selection(data)["key"]
    if not len(found) or not len(keys):
        return []
    row = found.iloc[0]
    labels = {site_label(site) for site in row["sites"]}
    labels |= {label.partition(" ")[0] for label in labels}
    chosen = [
        key
        for key, operation, sites in zip(keys["key"], keys["operation"], keys["sites"], strict=True)
        if operation == row["operation"]
        and any(s in labels or s.partition(" ")[0] in labels for s in sites)
    ]
    return list(dict.fromkeys(chosen))


def tried(data: Data, callsite: int) -> pd.DataFrame:
    """Return what the selector tried at a call site, by phase and score: columns of "trial"."""
    trials = selection(data)["trial"]
    here = trials[trials["key"].isin(keys_of(data, callsite))]
    return here.sort_values(["phase", "score_ns"], kind="stable", ignore_index=True)
