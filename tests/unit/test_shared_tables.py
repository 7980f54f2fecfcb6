"""Tables that the ranks of a node share: each line is read as written, or skipped."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import of_the_core
from support.jobs import run

from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import Problems

PARTS = (
    "base/signal_guard",
    "base/hash",
    "base/mapped",
    "base/memory",
    "base/operation",
    "base/recorder",
    "base/text",
)
TRACE = (
    *(
        "tracefile/checksum",
        "tracefile/file",
        "tracefile/folder",
        "tracefile/log_header",
        "tracefile/fd_guard",
    ),
    "tracefile/selector_log",
)
RANKS, LINES = 6, 400


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build ranks that write lines, on a file system with partial writes."""
    short = str(PROGRAMS / "tracefile_short_writes.c")
    place = tmp_path_factory.mktemp("lines") / "lines"
    return of_the_core(place, (*PARTS, *TRACE), short, source="tracefile_shared_lines.c")


@pytest.mark.heavy
def test_split_writes_and_a_kill_in_the_midst_of_one(program: Path, tmp_path: Path) -> None:
    """Without MPI: 6 ranks write 400 lines at once in halves; one is killed between two halves.

    Another rank starts when all have ended.
    """
    folder = tmp_path / "trace"
    run([program, folder, str(RANKS), str(LINES)], check=True)
    assert len(list(folder.glob("*.tables"))) == 1
    problems = Problems()
    found = read_tables(folder, RANKS + 1, problems)
    notes: dict[int, list[str]] = defaultdict(list)
    for rank, note in found.notes:
        notes[rank].append(note)
    written = [f"line {i}" for i in range(LINES)]
    last = {RANKS - 1: written[: LINES // 2], RANKS: written[:1]}
    assert notes == dict.fromkeys(range(RANKS - 1), written) | last
    assert found.truncated
    printed = [line.partition(": ")[2] for line in problems]
    assert printed == ["incomplete lines: 1"]


@pytest.mark.heavy
def test_an_unfinished_log_of_an_ended_creator_blocks_no_rank(
    program: Path, tmp_path: Path
) -> None:
    """Without MPI: 3 ranks find a killed rank's unfinished files; each uses separate files."""
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "node-host.log").touch()
    run([program, folder, "2", "10"], check=True)
    stems = [f"rank-{rank:06d}" for rank in range(3)]
    assert sorted(path.stem for path in folder.glob("*.tables")) == stems
    notes = read_tables(folder, 3, Problems()).notes
    counts = [sum(rank == of for of, _ in notes) for rank in range(3)]
    assert counts == [10, 5, 1]
