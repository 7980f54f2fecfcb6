"""Events per second that an export writes."""

from __future__ import annotations

import time
from pathlib import Path

from support.export_trace import export

from benchmarks.reading import write

EVENTS, RANKS = 5_000_000, 16


def test_parquet_at_a_million_events_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    events = write(folder, EVENTS, RANKS)
    began = time.monotonic()
    assert export(folder, "--to", "parquet", "-o", tmp_path / "t").returncode == 0
    rate = events / (time.monotonic() - began)
    print(f"{rate / 1e6:.2f} million events a second")
    assert rate > 1e6
