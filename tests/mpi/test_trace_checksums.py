"""The recorder writes checksums into a trace, and a reader detects damage by them."""

from __future__ import annotations

from pathlib import Path

from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof
from mpiprof.trace.checksum import is_line_intact

PROGRAM = """
from mpi4py import MPI
for _ in range(3000):
    MPI.COMM_WORLD.Barrier()
"""


def test_every_line_and_every_chunk_of_a_trace_has_its_sum(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: full chunks and the last chunk of each rank have checksums."""
    (tmp_path / "app.py").write_text(PROGRAM)
    words = ["-m", "mpiprof", "run", "-q", "--intervals", "off", "-o", "trace", "app.py"]
    run_mpi(openmpi, 2, [str(openmpi.python), *words], cwd=tmp_path, check=True)
    folder = tmp_path / "trace"
    for path in [*folder.glob("*.tables"), folder / "meta.json"]:
        lines = path.read_bytes().splitlines()
        assert lines and all(is_line_intact(line) for line in lines)
    trace = mpiprof.open(folder)
    for log in trace.logs.opened:
        assert log.chunks == 3 and (log.headers["check"][1:] != 0).all()
        assert log.is_intact(1) and log.is_intact(2)
    assert trace.callsites["instances"].max() == 3000
    assert trace.is_complete and trace.problems == []

    window = folder / "rank-000001.log"
    content = bytearray(window.read_bytes())
    content[65536 + 64 + 32 * 10] ^= 1  # changes the time of a barrier by 1 ns
    window.write_bytes(content)
    damaged = mpiprof.open(folder)
    assert damaged.callsites["complete_instances"].max() == 2045
    assert not damaged.is_complete
    assert any("has a wrong checksum" in line for line in damaged.problems)
