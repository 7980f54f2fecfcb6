"""A second thread begins while the first one counts without locks, and no count is lost.

programs/single_thread_begins.c calls core/record/single_thread.c, without MPI.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.compilation import of_the_core

ROUNDS = 200


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the sections of the recorder into a separate program."""
    executable = tmp_path_factory.mktemp("single_thread") / "begins"
    parts = ["record/single_thread"]
    return of_the_core(executable, parts, "-O2", "-pthread", source="single_thread_begins.c")


@pytest.mark.heavy
def test_no_count_is_lost_when_a_second_thread_begins(program: Path) -> None:
    done = subprocess.run([program, str(ROUNDS)], capture_output=True, text=True, check=True)
    lost, alone = map(int, done.stdout.split())
    assert lost == 0
    # Without the kernel's barrier (before Linux 4.14), the first thread uses locks from the start.
    assert alone in (0, ROUNDS)
