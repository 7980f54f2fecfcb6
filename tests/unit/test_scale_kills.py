"""The verdict of the scale benchmark on killed jobs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import scale


@pytest.mark.parametrize(
    ("left", "reported"),
    [
        ("true", "0 of 0, 0 incomplete"),
        ("mkdir {0}; echo no > {0}/rank-000000.tables; sleep 0.2", "0 of 3, 0 incomplete; "),
    ],
)
def test_a_missing_or_damaged_trace_meets_no_promise(
    tmp_path: Path, left: str, reported: str
) -> None:
    """A job without a trace proves nothing; for an unreadable trace the row states the reason."""

    def words(_: str, trace: Path) -> list[str]:
        return ["sh", "-c", left.format(trace)]

    bench: Any = SimpleNamespace(folder=tmp_path, words=words)
    row = scale.kills(bench, 3, 1)
    assert row.measured.startswith(reported)
    assert len(row.measured) > len(reported) or left == "true"
    assert not row.holds


@pytest.mark.heavy
def test_points_count_from_where_a_trace_begins(tmp_path: Path) -> None:
    """A job that writes nothing for most of its time is killed only after its trace appears."""
    slow = "sleep 0.5; mkdir {0}; echo no > {0}/rank-000000.tables; sleep 0.05"
    bench: Any = SimpleNamespace(
        folder=tmp_path, words=lambda _, trace: ["sh", "-c", slow.format(trace)]
    )
    assert scale.kills(bench, 4, 1).measured.startswith("0 of 4, ")
    assert len(list(tmp_path.glob("left-*"))) == 0
