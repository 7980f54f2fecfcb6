"""The fit of a link to message times: core/timing/alpha_beta_fit.c."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.compilation import of_the_core
from support.jobs import run

QUICK = (0, 1024, 16384, 131072)  # sizes of the quick measurement at the start
FULL = (0, *(1 << i for i in range(22)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the recorder's fit into a separate program."""
    executable = tmp_path_factory.mktemp("line") / "line"
    return of_the_core(
        executable,
        ["timing/alpha_beta_fit", "base/text", "base/memory"],
        source="timing_alpha_beta_fit.c",
    )


def link(
    program: Path,
    sizes: tuple[int, ...],
    one_way: Callable[[float], float],
    both_ways: Callable[[float], float],
) -> tuple[float, float, float, float]:
    """Return alpha, beta, pace and buffer fitted to the given message times."""
    words = [f"{m}:{one_way(m):.3f}:{both_ways(m):.3f}" for m in sizes]
    alpha, beta, pace, buffer = map(float, run([program, *words], check=True).stdout.split())
    return alpha, beta, pace, buffer


@pytest.mark.heavy
@pytest.mark.parametrize(
    "other", [1.0, 1.4, 2.0], ids=["full duplex", "busy memory", "half duplex"]
)
def test_a_link_without_a_buffer_has_one_pace(other: float, program: Path) -> None:
    """Both ways at once take up to twice as long, because of the other direction."""
    found = link(program, QUICK, lambda m: 800 + 0.1 * m, lambda m: 900 + 0.1 * other * m)
    assert found[:3] == pytest.approx((800, 0.1, 0.1), rel=0.01)


def test_a_buffer_that_large_messages_pass(program: Path) -> None:
    def one_way(m: float) -> float:
        return 30e3 + 1.0 * min(m, 32768) + 80.0 * max(m - 32768, 0)

    _, _, pace, buffer = link(program, FULL, one_way, one_way)
    assert pace == pytest.approx(80, rel=1e-3)
    assert 16384 <= buffer <= 65536


def test_a_buffer_that_is_larger_than_any_message(program: Path) -> None:
    """Times of 16 emulated nodes at 100 Mbit/s: 80 ns/B, which one way alone does not show."""
    one_way = {0: 10450.5, 1024: 26068.5, 16384: 87540.5}
    both_ways = {0: 25257.5, 1024: 71584.2, 16384: 1373525.0}
    sizes = tuple(one_way)
    _, beta, pace, buffer = link(
        program, sizes, lambda m: one_way[int(m)], lambda m: both_ways[int(m)]
    )
    assert beta < 10
    assert pace == pytest.approx(80, rel=0.1)
    assert 16384 <= buffer <= 32768


def test_one_size_is_no_slope(program: Path) -> None:
    assert link(program, (0,), lambda _: 500, lambda _: 700) == (500, 0, 0, 0)
