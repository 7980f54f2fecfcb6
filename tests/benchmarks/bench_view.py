"""Time until `view` prints its address."""

from __future__ import annotations

import os
from pathlib import Path

from support.dashboard_server import view
from support.dashboard_traces import plain


def test_the_address_is_there_within_a_second_of_work(tmp_path: Path) -> None:
    with view([plain(tmp_path / "t", 2)]) as running:
        stat = Path(f"/proc/{running.process.pid}/stat").read_text()
    ticks = sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    seconds = ticks / os.sysconf("SC_CLK_TCK")
    print(f"{seconds:.2f} s of processor time")
    assert seconds < 1
