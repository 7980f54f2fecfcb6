"""Corrections that `auto` learns apply to predictions of similar cases; without MPI."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import of_the_core
from support.jobs import run


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile core/selection/online/model_correction.c into a separate program."""
    parts = ("selection/online/model_correction", "base/text", "base/memory")
    folder = tmp_path_factory.mktemp("learned")
    return of_the_core(folder / "learned", parts, source="selection_model_correction.c")


def factors(learned: Path, text: str, *questions: str) -> list[float]:
    """Return the correction factor of each "operation algorithm bytes members"."""
    words = [word for question in questions for word in question.split()]
    return [float(line) for line in run([learned, text, *words], check=True).stdout.split()]


@pytest.mark.heavy
def test_no_correction_without_data(learned: Path) -> None:
    assert factors(learned, "", "reduce ring 1024 8") == [1]


def test_a_lesson_is_shrunk_towards_one(learned: Path) -> None:
    """3 runs at twice the prediction: (1 + 3 * 2) / 4 for all, and again for the case itself."""
    shared = (1 + 3 * 2) / (1 + 3)
    own = (shared + 3 * 2) / (1 + 3)
    found = factors(learned, "reduce ring 10 3 2.0 3;", "reduce ring 1024 8", "reduce tree 1024 8")
    assert found == pytest.approx([own, shared])


def test_corrections_decrease_with_distance(learned: Path) -> None:
    """Four times the bytes and twice the members: three classes, an eighth of the weight."""
    shared = (1 + 3 / 8 * 2) / (1 + 3 / 8)
    own = (shared + 3 / 8 * 2) / (1 + 3 / 8)
    assert factors(learned, "reduce ring 10 3 2.0 3;", "reduce ring 4096 16") == pytest.approx(
        [own], rel=1e-5
    )
    assert factors(learned, "reduce ring 10 3 2.0 3;", "reduce ring 1048576 8") == [1]


def test_library_algorithms_start_from_the_similar_mpiprof_algorithm(learned: Path) -> None:
    """Data of mpiprof's algorithm applies to the library's twin, but not vice versa."""
    ours, own = "reduce ring 10 3 2.0 3;", "reduce native:ring 10 3 0.5 5;"
    factor = ((1 + 3 * 2) / 4 + 3 * 2) / 4
    questions = ("reduce ring 1024 8", "reduce native:ring 1024 8")
    assert factors(learned, ours, *questions) == pytest.approx([factor, factor])
    found = factors(learned, ours + own, *questions)
    assert found == pytest.approx([factor, (factor + 5 * 0.5) / 6])


def test_other_operations_are_other_models(learned: Path) -> None:
    assert factors(learned, "reduce tree 10 3 2.0 3;", "bcast tree 1024 8") == [1]


def test_repeated_corrections_are_averaged(learned: Path) -> None:
    twice = factors(learned, "reduce ring 10 3 2.0 3;reduce ring 10 3 4.0 1;", "reduce ring 1024 8")
    once = factors(learned, "reduce ring 10 3 2.5 4;", "reduce ring 1024 8")
    assert twice == pytest.approx(once)


def test_what_is_no_lesson_is_left_out(learned: Path) -> None:
    text = "reduce none 10 3 2.0 3;nonsense;reduce ring 10 3 -1 3;reduce ring 10 3 2.0 0;"
    assert factors(learned, text, "reduce ring 1024 8") == [1]
