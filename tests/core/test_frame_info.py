"""Frames of sampled stacks by call frame information: core/callsite/frame_*.c, sampled_stack.c."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from support.compilation import of_the_core
from support.jobs import run

NAMES = ("frame_bytes", "frame_entry", "frame_expression", "frame_rules", "sampled_stack")
PARTS = [f"callsite/{name}" for name in NAMES]
MATHEMATICS = ("-Wl,--no-as-needed", "-lm")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
MIN_INSTRUCTIONS, DAMAGES, MIN_FOUND = 20_000, 200_000, 1000

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="callers are found by frame pointers"
)


@pytest.mark.parametrize("optimisation", ["-O0", "-O2"])
def test_frames_at_every_instruction_are_those_of_exceptions(
    optimisation: str, tmp_path: Path
) -> None:
    """Within exp, pow, qsort and its callback, snprintf, strtod, malloc and clock_gettime (vdso).

    Also in stubs of the linker, and in a function that realigns its stack.
    """
    program = of_the_core(
        tmp_path / "program", PARTS, optimisation, *MATHEMATICS, source="frame_info.c"
    )
    done = run([program, "steps"], check=True)
    instructions, differences = map(int, done.stdout.split())
    assert instructions > MIN_INSTRUCTIONS and not differences, done


def test_damaged_tables_and_random_stacks_do_no_harm(tmp_path: Path) -> None:
    """No read outside of table and copy; enough of the damaged entries are still found."""
    program = of_the_core(
        tmp_path / "program", PARTS, *SANITIZED, *MATHEMATICS, source="frame_info.c"
    )
    done = run([program, "damage", str(DAMAGES)], check=True)
    assert int(done.stdout) > MIN_FOUND
