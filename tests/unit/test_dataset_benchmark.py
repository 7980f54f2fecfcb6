"""The benchmark of data sets: it writes a valid one, and its table judges the promises."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from benchmarks import dataset
from benchmarks.checks import Row, printed

import mpiprof


def test_what_it_writes_is_read_in_full(tmp_path: Path) -> None:
    """7 ranks: communicators of 7, 3 and 4, with 3, 2 and 2 blocks per round."""
    events = dataset.write(tmp_path / "set", 40_000, 7)
    trace = mpiprof.open(tmp_path / "set")
    table = trace.callsites
    assert int((table["instances"] * table["size"]).sum()) == events
    assert table["complete_instances"].sum() == table["instances"].sum()
    assert trace.problems == []
    late = table.set_index("operation").loc["barrier", "worst_imbalance_ns"]
    assert late == pytest.approx(50_000 * 6 / 8, rel=0.02)  # of 7 uniform times: (n - 1) / (n + 1)


def test_the_table_states_which_promises_are_met(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"instances": [50], "size": [2]})
    found = {
        1: [dataset.Found(10.0, [9.0], 100.0, table), dataset.Found(12.0, [8.0], 120.0, table)],
        2: [dataset.Found(6.0, [4.0, 5.0], 3000.0, table, 0.56)],
    }
    rows = {row.what: (row.measured, row.holds) for row in dataset.promises(found, 100)}
    assert rows["calls in the table"] == ("100", True)
    assert rows["speed-up from 1 to 2"] == ("1.67", False)
    assert rows["  by processor time"] == ("1.60", True)
    assert rows["sample of a report"] == ("0.6 s of processor time", True)
    assert rows["1 worker: memory of one"] == ("120 MB", True)
    assert rows["2 workers: memory of one"] == ("3000 MB", False)
    assert not printed([Row("a", "1", "2", False)])
    assert printed([Row("a", "", "2")])
    assert capsys.readouterr().out.splitlines()[1].split() == ["a", "1", "2", "NO"]
