"""Files and functions that one report runs: `python -m benchmarks.report_rooms [TRACE]`.

A person who looks for the origin of a figure must know these. Without a trace, the benchmark
records samples/nbody.py on 4 ranks. A function counts once, however often it runs. Modules,
classes, lambdas and comprehensions do not count. `-v` lists the functions by file.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from support import ROOT

import mpiprof
from benchmarks.checks import Row, store
from benchmarks.jobs import recording
from mpiprof.__main__ import main as run_mpiprof

RANKS = 4
MAX_FILES, MAX_FUNCTIONS = 90, 450
SOURCES = str(Path(mpiprof.__file__).parent)


def list_functions(arguments: list[str]) -> dict[str, set[CodeType]]:
    """Return the functions of mpiprof that a command runs, by file."""
    functions: defaultdict[str, set[CodeType]] = defaultdict(set)

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith(
            "<"
        )
        if event == "call" and is_function and code.co_filename.startswith(SOURCES):
            functions[code.co_filename.removeprefix(SOURCES + "/")].add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            run_mpiprof(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return functions


def main() -> None:
    """Count the files and functions of a report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("-v", action="store_true", dest="verbose", help="list the functions")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpiprof-bench-") as name:
        trace = options.trace or Path(name) / "trace"
        if options.trace is None:
            program = [sys.executable, str(ROOT / "samples" / "nbody.py")]
            command = [*recording(trace, "-n", str(RANKS)), *program]
            subprocess.run(command, check=True, capture_output=True)
        functions = list_functions(["report", str(trace)])
    for file, codes in sorted(functions.items()) if options.verbose else ():
        print(f"{file:50} {len(codes):3}  {' '.join(sorted(code.co_name for code in codes))}")
    count = sum(map(len, functions.values()))
    print(f"{len(functions)} files (goal {MAX_FILES}), {count} functions (goal {MAX_FUNCTIONS})")
    limits = ("files", len(functions), MAX_FILES), ("functions", count, MAX_FUNCTIONS)
    for what, value, most in limits:
        store(Row(f"a report on {RANKS} ranks: {what}", f"<= {most}", str(value), value <= most))


if __name__ == "__main__":
    main()
