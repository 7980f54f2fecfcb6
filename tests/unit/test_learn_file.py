"""The file of `--learn`: accepted and refused content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpiprof.collectives.tune.model_correction import (
    MAX_RUNS,
    NEWEST_BYTES,
    format_start_values,
    read,
)
from mpiprof.errors import UsageError


def line(mpi: str = "Open MPI 5.0.11", **changes: object) -> str:
    values = {"operation": "reduce", "algorithm": "ring", "bytes": 1024, "members": 8}
    values |= {"ratio": 2.0, "runs": 3} | changes
    return json.dumps(values | {"measured": {"how": "auto", "mpi": mpi, "hosts": ["n1"]}})


def text(path: Path, *lines: str) -> str | None:
    path.write_text("".join(f"{one}\n" for one in lines))
    return format_start_values(read(path), lambda mpi: mpi.startswith("Open"))


def test_means_of_the_same_mpi_are_handed_over(tmp_path: Path) -> None:
    lines = [line(), line(ratio=4.0, runs=1), line("MPICH 5.0.2", ratio=9.0), line(bytes=1 << 20)]
    assert text(tmp_path / "l", *lines) == "reduce ring 10 3 2.5 4;reduce ring 20 3 2 3;"


def test_what_is_old_counts_for_so_many_runs(tmp_path: Path) -> None:
    lines = [*[line(ratio=1.0, runs=16)] * 5, line(ratio=2.0, runs=16)]
    assert text(tmp_path / "l", *lines) == f"reduce ring 10 3 1.5 {MAX_RUNS};"


def test_the_newest_lines_are_read(tmp_path: Path) -> None:
    lines = [line(bytes=2), *[line(bytes=4)] * NEWEST_BYTES]
    assert text(tmp_path / "l", *lines) == f"reduce ring 2 3 2 {MAX_RUNS};"


@pytest.mark.parametrize(
    "broken",
    [
        line()[:40],
        "null",
        "[]",
        "{}",
        line(ratio="nan"),
        line(ratio=-1),
        line(runs=0),
        line(bytes=0),
        line(algorithm="ring 1; rm"),
        line(bytes="10"[:0]),
        "\0" * 10,
        "[" * 100_000,
    ],
)
def test_a_broken_line_is_ignored(broken: str, tmp_path: Path) -> None:
    assert text(tmp_path / "l", broken, line(), broken) == "reduce ring 10 3 2 3;"
    with pytest.raises(UsageError, match="holds nothing that was learned"):
        text(tmp_path / "l", broken)


def test_a_missing_and_an_empty_file_have_no_corrections(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == []
    assert text(tmp_path / "l") is None


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        read(tmp_path / "none" / "l")
