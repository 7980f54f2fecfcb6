"""Cells of the table of call sites that join several values of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mpiprof.interface.format_units import (
    UNKNOWN,
    between,
    format_estimate,
    format_share,
    format_time,
)

Row = Mapping[Any, Any]


def instances(row: Row) -> str:
    """Return the number of instances, with ~ if it is estimated."""
    return format_estimate(row["total_instances"], row["instances"])


def any_incomplete(rows: Sequence[Row]) -> bool:
    """Return whether any row has complete instances and others."""
    return any(0 < row["complete_instances"] < row["total_instances"] for row in rows)


def algorithm(row: Row) -> str:
    """Return the algorithms other than the library's, with counts if there are several."""
    parts = row["algorithms"].split(", ")
    if len(parts) > 2:
        return f"{parts[0]}, {len(parts) - 1} others"
    if len(parts) == 2:
        return str(row["algorithms"])
    name = parts[0].rpartition(" ")[0]
    return "" if name == "native" else str(name)


def total_wait(row: Row) -> str:
    """Return the total wait, if any instance was complete."""
    known = not pd.isna(row.get("wait_ns", 0))
    return format_time(row["total_wait_ns"]) if known else UNKNOWN


def wait_limits(row: Row) -> str:
    """Return the limits of an estimated total wait, or "" if it is exact."""
    return between(row["total_wait_low_ns"], row["total_wait_high_ns"], format_time)


def wait_share(row: Row) -> str:
    """Return the total wait as a share of the time of the ranks, if any instance was complete."""
    return UNKNOWN if pd.isna(row["wait_ns"]) else format_share(row["wait_share"])


def latest(row: Row) -> str:
    """Return the rank that is last most often, and how often."""
    if pd.isna(row["latest_rank"]):
        return UNKNOWN
    return f"{row['latest_rank']} in {format_share(row['latest_share'])}"
