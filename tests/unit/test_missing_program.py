"""A program that is missing when its trace is read, and is there again later."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_verb
from support.synthetic import Synthetic

from mpiprof.reports.site_labels import NO_LINE_NUMBERS, explain_address
from mpiprof.trace.sites import resolve_native

SOURCE = "int step(void)\n{\n    return 3;\n}\nint main(void)\n{\n    return step();\n}\n"
MISSING = "is missing, so its call sites are addresses: copy the recorded file there again"
MS = 1_000_000


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a compiled program with line numbers."""
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("addr2line") is None or shutil.which("nm") is None:
        pytest.skip("requires a compiler and binutils")
    (tmp_path / "app.c").write_text(SOURCE)
    program = tmp_path / "app"
    subprocess.run([compiler, "-g", "-O0", "-o", program, tmp_path / "app.c"], check=True)
    return program


def find_offset(program: Path) -> int:
    """Return an offset in the function `step`."""
    lines = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return (
        next(int(line.split()[0], 16) for line in lines.splitlines() if line.endswith(" step")) + 5
    )


def make_trace(program: Path, folder: Path) -> Path:
    """Write a trace of two ranks, whose only call site is in the program."""
    trace = Synthetic(2)
    frame = {"module": str(program), "offset": find_offset(program)}
    arrivals = np.arange(1, 9)[:, None] * MS + np.array([0, MS // 2])
    ends = np.repeat(arrivals.max(1, keepdims=True) + 1_000, 2, 1)
    trace.add_collective("allreduce", arrivals, ends, site={0: frame, 1: frame})
    return trace.write(folder)


def read_report(trace: Path) -> str:
    return " ".join(run_verb("report", trace)[1].split())


def test_a_missing_program_is_named_until_it_is_there_again(program: Path, tmp_path: Path) -> None:
    """The names of the first report must not remain in the cache of the trace."""
    trace, elsewhere = make_trace(program, tmp_path / "trace"), tmp_path / "elsewhere"
    program.rename(elsewhere)
    text = read_report(trace)
    assert f"The program or library {program} {MISSING}" in text and "compile" not in text
    assert "app.c:" not in text
    elsewhere.rename(program)
    text = read_report(trace)
    assert "app.c:3 step" in text and "app 0x" not in text and "is missing" not in text


def test_offsets_of_a_missing_file_are_resolved_later(program: Path, tmp_path: Path) -> None:
    offset, elsewhere = find_offset(program), tmp_path / "elsewhere"
    program.rename(elsewhere)
    assert resolve_native(str(program), [offset]) == {}
    elsewhere.rename(program)
    file, line, function = resolve_native(str(program), [offset])[offset]
    assert (Path(file).name, line, function) == ("app.c", 3, "step")


def test_a_program_without_line_numbers_must_be_compiled_with_them(program: Path) -> None:
    strip = shutil.which("strip")
    if strip is None:
        pytest.skip("requires strip")
    site = {"file": str(program), "line": None, "function": "0x1234"}
    subprocess.run([strip, program], check=True)
    assert explain_address(site) == NO_LINE_NUMBERS
