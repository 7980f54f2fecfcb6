"""What the bench of many ranks says of jobs that were killed."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiprof.bench.cost import scale


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ("true", "0 of 0, 0 incomplete; 3 too early"),
        ("mkdir {0}; echo no > {0}/rank-000000.tables", "0 of 3, 0 incomplete; 0 too early; "),
    ],
)
def test_no_trace_and_a_damaged_one_hold_no_promise(tmp_path: Path, left: str, told: str) -> None:
    """Jobs that leave nothing have shown nothing; and of what can't be read it says why."""

    def words(_: str, trace: Path) -> list[str]:
        return ["sh", "-c", left.format(trace)]

    bench: Any = SimpleNamespace(
        folder=tmp_path, words=words, run=lambda *_: time.sleep(2), modes=("events",)
    )
    row = scale.kills(bench, 3, 1)
    assert row.measured.startswith(told)
    assert len(row.measured) > len(told) or left == "true"
    assert not row.holds
