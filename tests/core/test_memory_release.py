"""Release of static memory: programs/memory_release.c with core/base/memory.c."""

from __future__ import annotations

from mmap import PAGESIZE as PAGE
from pathlib import Path

import pytest
from support.compilation import of_the_core
from support.jobs import run


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the recorder's memory code into a separate program."""
    executable = tmp_path_factory.mktemp("memory") / "give_back"
    return of_the_core(executable, ["base/memory"], source="memory_release.c")


@pytest.mark.parametrize(
    ("begin", "size", "given"),
    [
        (0, 3 * PAGE, f"0 {3 * PAGE - 1}"),
        (1, 3 * PAGE, f"{PAGE} {3 * PAGE - 1}"),  # the pages at both ends also contain other data
        (PAGE - 1, 2 * PAGE + 1, f"{PAGE} {3 * PAGE - 1}"),
        (5, 2 * PAGE - 6, "none"),
        (100, 200, "none"),
    ],
)
def test_whole_pages_are_given_back(begin: int, size: int, given: str, program: Path) -> None:
    assert run([program, str(begin), str(size)], check=True).stdout.strip() == given
