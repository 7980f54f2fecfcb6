"""Both MPI calls of a method of mpi4py for objects are named, and are no pattern."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account.shape_names import DATA_CALLS

MS = 1_000_000
STEPS = 40


def recorded(folder: Path, operation: str, types: tuple[str, str]) -> Path:
    """Record steps of 20 ms in which the root is 6 ms late in the first of two calls."""
    synthetic = Synthetic(4)
    synthetic.started_ns, synthetic.ended_ns = 0, (STEPS + 1) * 20 * MS
    noise = np.random.default_rng(1).integers(0, 50_000, (STEPS, 4))
    arrivals = np.arange(1, STEPS + 1)[:, None] * 20 * MS + noise + 6 * MS * (np.arange(4) == 0)
    for step in range(STEPS):
        at = arrivals[step : step + 1]
        for name, sent, later in ((operation, 8, 0), (DATA_CALLS[operation], 5000, 20_000)):
            times = at + 0 * at if not later else np.repeat(at.max(1, keepdims=True), 4, 1) + later
            exits = np.repeat(times.max(1, keepdims=True) + 10_000, 4, 1)
            root = None if operation.startswith("all") else 0
            synthetic.add_collective(
                name, times, exits, "world", sent, sent, root, "app.py:12:main"
            )
    for rank in range(4):
        for line in synthetic.lines[rank]:
            if "operation" in line:
                line["type"] = types[line["sent"] != 8]
    return synthetic.write(folder)


@pytest.mark.parametrize("operation", sorted(DATA_CALLS))
def test_both_calls_have_the_name_of_the_method(tmp_path: Path, operation: str) -> None:
    trace = mpiprof.open(recorded(tmp_path / "t", operation, ("MPI_COUNT", "MPI_BYTE")))
    sites = [of[0] for of in trace.callsites["sites"]]
    assert [site["method"] for site in sites] == [
        f"sizes of comm.{operation}",
        f"data of comm.{operation}",
    ]
    assert trace.callsites["instances"].tolist() == [STEPS, STEPS]
    assert {(site["file"], site["line"], site["function"]) for site in sites} == {
        ("app.py", 12, "main")
    }


@pytest.mark.heavy
def test_a_method_is_no_pattern(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The late root is named at the first call, not in every second instance."""
    path = recorded(tmp_path / "t", "bcast", ("MPI_COUNT", "MPI_BYTE"))
    assert main(["report", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "app.py:12 main, sizes of comm.bcast" in text
    assert "every 2nd" not in text
    assert main(["report", str(path), "--site", "app.py:12"]) == 0


def test_other_calls_keep_their_site(tmp_path: Path) -> None:
    """Buffers of other types are not objects."""
    trace = mpiprof.open(recorded(tmp_path / "t", "bcast", ("MPI_LONG", "MPI_BYTE")))
    assert trace.callsites["instances"].tolist() == [2 * STEPS]
    assert "method" not in trace.callsites["sites"][0][0]
