"""Selections of a trace's tables for tests."""

from __future__ import annotations

import pandas as pd

from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES


def table_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of MPI's collectives, without the management operations."""
    return frame[~frame["operation"].isin(MANAGEMENT_COLLECTIVES)]
