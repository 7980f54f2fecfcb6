"""Peak memory of `report`, which grows in proportion to the trace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted
from support.planted_loops import PlantedLoop
from support.synthetic import Synthetic

REPORT = """
import sys
from benchmarks.memory import peak_mb
from mpiprof.__main__ import main
code = main(["report", sys.argv[1]])
print("peak", peak_mb(), file=sys.stderr)
sys.exit(code)
"""
BASE_MB, BYTES_PER_BYTE = 215.0, 15  # without a trace, and for each byte of its logs
RANKS, STEPS = 4, 4000  # the longest series that is searched for moving delays
PHASES = 14


def write_collectives(folder: Path) -> Path:
    """Write loops of allreduce and bcast, each with call sites of its own, without a late rank."""
    trace = Synthetic(RANKS)
    random = np.random.default_rng(1)
    begin_ns = trace.started_ns
    for phase in range(PHASES):
        work_ns = random.integers(50_000, 150_000, (2 * STEPS, RANKS))
        exit_ns = begin_ns + np.cumsum(work_ns.max(1) + 20_000)
        enter_ns = np.concatenate([[begin_ns], exit_ns[:-1]])[:, None] + work_ns
        for place, operation in enumerate(("allreduce", "bcast")):
            calls = np.arange(place, 2 * STEPS, 2)
            for rank in range(RANKS):
                options = {"site": f"app.py:{2 * phase + place + 1}:main", "sent": 8, "received": 8}
                shape = trace.add_shape(rank, operation, "world", **options, root=place and 0)
                number = 2 * STEPS * phase + calls
                trace.add(rank, shape, number, enter_ns[calls, rank], exit_ns[calls])
        begin_ns = int(exit_ns[-1])
    trace.ended_ns = begin_ns
    for records in trace.records:  # of a rank, in the order of their times
        joined = np.concatenate(records)
        records[:] = [joined[np.argsort(joined["enter_ns"], kind="stable")]]
    return trace.write(folder)


def write_wavefront(folder: Path) -> Path:
    """Write a pipeline whose messages pass through all ranks in each step."""
    loop = loops.pipeline(RANKS, "barrier")
    noise = planted.make_noise("quiet", (1200, len(loop.places), RANKS), 1)
    return PlantedLoop(loop, noise).build().write(folder)


@pytest.mark.heavy
@pytest.mark.parametrize("write", [write_collectives, write_wavefront])
def test_the_memory_is_in_proportion_to_the_trace(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    trace = write(tmp_path / "t")
    log_mb = sum(log.stat().st_size for log in trace.glob("*.log")) / 1e6
    path = str(Path(__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {path!r}){REPORT}"
    command = [sys.executable, "-c", program, str(trace)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = "no sure cause", "Nothing stands out", "Ranks wait at barrier at app.py:1"
    assert any(text in done.stdout for text in expected)
    peak_mb = float(done.stderr.split("peak ")[-1])
    assert peak_mb < BASE_MB + BYTES_PER_BYTE * log_mb
