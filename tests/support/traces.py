"""What tests look for in a trace."""

from __future__ import annotations

import pandas as pd

from mpiprof.analysis.operations import GATHERINGS


def table_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of MPI's collectives; test_gatherings.py has what is recorded beside them."""
    return frame[~frame["operation"].isin(GATHERINGS)]
