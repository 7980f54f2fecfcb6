"""Predicted times of the candidates of `--switch auto`, without MPI."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ROOT
from support.compilation import of_the_core
from support.jobs import run

ALPHA, BETA = 1000.0, 1.0  # ns, and ns per byte
PATTERNS = ("balanced", "imbalanced", "late")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the predictions and the catalogue."""
    schedules = sorted((ROOT / "mpiprof" / "core" / "schedule").rglob("*.c"))
    parts = [str(path.relative_to(ROOT / "mpiprof" / "core").with_suffix("")) for path in schedules]
    folder = tmp_path_factory.mktemp("predict")
    core = ("selection/online/candidates", "base/memory")
    return of_the_core(folder / "predict", [*core, *parts], "-O0", source="selection_predict.c")


def predict(program: Path, members: int, number: int) -> dict[str, dict[str, int]]:
    """Return the times of the algorithms in ns by pattern of the arrivals."""
    words = [str(program), *map(str, (members, number, ALPHA, BETA))]
    lines = run(words, check=True).stdout.splitlines()
    pairs = [[word.split("=") for word in line.split()] for line in lines]
    return {
        pattern: {name: int(ns) for name, ns in several}
        for pattern, several in zip(PATTERNS, pairs, strict=True)
    }


@pytest.mark.heavy
def test_barriers_of_imbalanced_all_to_alls_have_no_cost(program: Path) -> None:
    """With 4 ranks a ring has 3 rounds, a barrier 2 latencies, and the light barriers 2 rounds.

    A round has 2 messages on each rank, the second of which costs a tenth of the latency.
    """
    by_pattern = predict(program, 4, 64)
    ring = by_pattern["balanced"]["ring"]
    assert ring == pytest.approx(3 * (1.1 * ALPHA + 64 * BETA), abs=2)
    balanced = by_pattern["balanced"]
    assert balanced["ring_one_barrier"] == pytest.approx(ring + 2 * ALPHA, abs=2)
    assert balanced["ring_light_barrier"] == pytest.approx(ring + 2 * 1.1 * ALPHA, abs=2)
    for pattern in ("imbalanced", "late"):
        times = by_pattern[pattern]
        for name in ("ring", "pair"):
            synchronised = [times[f"{name}_{kind}_barrier"] for kind in ("one", "light")]
            assert synchronised == [times[name]] * 2 == [ring] * 2


@pytest.mark.heavy
def test_pair_requires_a_power_of_two(program: Path) -> None:
    names = set(predict(program, 6, 64)["balanced"])
    assert {"ring", "ring_light_barrier", "simple"} <= names and "pair" not in names
