"""The tables that ranks of a node share: each line as it was written, or left out."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from support import PROGRAMS
from support.jobs import run
from support.programs import of_the_core

from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import Problems

PARTS = ("base/guard", "base/hash", "base/memory", "base/recorder", "base/text")
TRACE = ("trace/check", "trace/file", "trace/folder", "trace/head", "trace/owned")
RANKS, LINES = 6, 400


def test_split_writes_and_a_kill_in_the_midst_of_one(tmp_path: Path) -> None:
    """Without MPI: 6 ranks write 400 lines at once in halves; one is killed between two.

    Another one comes when all have ended.
    """
    short = str(PROGRAMS / "short_writes.c")
    program = of_the_core(tmp_path / "lines", (*PARTS, *TRACE), short, source="shared_lines.c")
    folder = tmp_path / "trace"
    run([program, folder, str(RANKS), str(LINES)], check=True, timeout=60)
    assert len(list(folder.glob("*.tables"))) == 1
    problems = Problems()
    found = read_tables(folder, RANKS + 1, problems)
    notes: dict[int, list[str]] = defaultdict(list)
    for rank, note in found.notes:
        notes[rank].append(note)
    written = [f"line {i}" for i in range(LINES)]
    last = {RANKS - 1: written[: LINES // 2], RANKS: written[:1]}
    assert notes == dict.fromkeys(range(RANKS - 1), written) | last
    assert found.cut
    said = [line.partition(": ")[2] for line in problems]
    assert said == ["1 lines were begun and not written to their end"]
