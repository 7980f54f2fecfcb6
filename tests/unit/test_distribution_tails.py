"""Tails of distributions, compared with scipy, which a report does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special
from support.synthetic import Synthetic

from mpiprof.metrics import distributions

MS = 1_000_000


def test_incomplete_beta() -> None:
    """Over six decades of both parameters, around the rise from 0 to 1, and at the ends."""
    random = np.random.default_rng(3)
    a, b = 10 ** random.uniform(-0.3, 6, (2, 4000))
    mean = a / (a + b)
    wide = np.sqrt(mean * (1 - mean) / (a + b + 1))
    x = np.clip(mean + wide * random.normal(0, 4, 4000), 0.0, 1.0)
    found, expected = distributions.incomplete_beta(a, b, x), special.betainc(a, b, x)
    assert ((x == 0) | (x == 1)).any()
    assert np.allclose(found, expected, rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize("free", [0.7, 1, 3, 19, 4000.5])
def test_student(free: float) -> None:
    score = np.array([-np.inf, -40, -1, 0, 0.3, 2, 9, 50, np.inf])
    assert np.allclose(distributions.student(free, score), special.stdtr(free, -score), rtol=1e-9)
    for p in (0.5, 0.6, 0.975, 0.9999):
        expected = special.stdtrit(free, p)
        assert distributions.student_quantile(free, p) == pytest.approx(
            expected, rel=1e-8, abs=1e-9
        )


def test_what_is_not_known_stays_so() -> None:
    found = distributions.student(
        np.array([3.0, 3.0, 0.0, np.nan]), np.array([1.0, np.nan, 1.0, 1.0])
    )
    assert np.isnan(found).tolist() == [False, True, True, True]
    assert np.isnan(distributions.student_quantile(0, 0.975))


@pytest.mark.parametrize(("above", "below"), [(1, 1), (3, 20), (7.5, 90_000)])
def test_fisher(above: float, below: float) -> None:
    for ratio in (0.0, 0.5, 1.0, 4.0, 1e9):
        expected = special.fdtrc(above, below, ratio)
        assert distributions.fisher(above, below, ratio) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("count", "p"), [(1, 0.5), (10, 0.2), (1000, 1 / 3), (131_072, 1 / 512)])
def test_binomial(count: int, p: float) -> None:
    for hits in {0, 1, round(count * p), min(round(count * p) + 3, count), count}:
        expected = special.bdtrc(hits - 1, count, p) if hits else 1.0
        assert distributions.binomial(hits, count, p) == pytest.approx(
            expected, rel=1e-7, abs=1e-300
        )
    assert distributions.binomial(count + 1, count, p) == 0


def test_a_report_imports_no_scipy(tmp_path: Path) -> None:
    """With findings of a late rank; importing scipy takes a third of a short report's time."""
    made = Synthetic(4)
    arrivals = np.arange(1, 91)[:, None] * MS + np.array([0, 5, 9, MS // 3])
    made.collective("allreduce", arrivals, arrivals.max(1)[:, None] + 10 + np.zeros((1, 4), int))
    made.ended_ns = 100 * MS
    path = made.write(tmp_path / "trace")
    code = "import sys; from mpiprof.__main__ import main; main(['report', sys.argv[1]]); "
    code += "sys.exit(any(name.split('.')[0] == 'scipy' for name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert "rank 3" in done.stdout
    assert done.returncode == 0, done.stderr
