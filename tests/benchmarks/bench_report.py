"""Processor time of a report, and its growth with the trace."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
from support.synthetic import Synthetic


def long_trace(folder: Path, instances: int) -> Path:
    """Write four call sites of two ranks with a spread of some microseconds."""
    random, synthetic = np.random.default_rng(1), Synthetic(2)
    begins = 10_000 + 100_000 * np.arange(instances)[:, None]
    arrivals = begins + random.integers(0, 20_000, (instances, 2))
    exits = arrivals.max(1, keepdims=True) + 5_000 + random.integers(0, 500, (instances, 2))
    for line, rows in enumerate(np.array_split(np.arange(instances), 4), 10):
        synthetic.add_collective(
            "allreduce", arrivals[rows], exits[rows], site=f"app.py:{line}:main"
        )
    return synthetic.write(folder)


def report_s(trace: Path) -> float:
    """Return the processor time of a first report in s, imports included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "mpiprof", "report", trace], stdout=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_million_instances(tmp_path: Path) -> None:
    """A report takes less than 3 s, and its time grows at most as fast as the trace."""
    tenth, whole = (report_s(long_trace(tmp_path / str(n), n)) for n in (10**5, 10**6))
    print(f"10^5 instances {tenth:.2f} s, 10^6 instances {whole:.2f} s")
    assert whole < 3.0
    assert whole < 10 * tenth
