"""Speed of writing and reading OTF2 archives: `python -m benchmarks.otf2 [--events N]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import mpiprof
from benchmarks.checks import THRESHOLD_MISSED, Row, printed
from benchmarks.reading import write
from mpiprof import __main__ as command_line
from mpiprof.errors import MpiprofError

RANKS = 16
EVENTS = 6  # of OTF2 for a call
WRITTEN, READ = 5e6, 10e6  # events/s of processor time


def promises(folder: Path, calls: int) -> Iterator[Row]:
    """Yield the rates of export and of reading; raises MpiprofError."""
    (folder / "trace").mkdir()
    calls = write(folder / "trace", calls, RANKS)
    archive = folder / "archive"
    began = time.process_time()
    words = ["export", str(folder / "trace"), "--to", "otf2", "-o", str(archive)]
    if command_line.main(words):
        raise MpiprofError("the export failed")
    yield rate("export to OTF2", WRITTEN, EVENTS * calls / (time.process_time() - began))
    began = time.process_time()
    table = mpiprof.open(archive / "traces.otf2").callsites
    spent = time.process_time() - began
    if int((table["instances"] * table["size"]).sum()) != calls:
        raise MpiprofError("the archive has other calls than the trace")
    yield rate("import of OTF2", READ, EVENTS * calls / spent)


def rate(what: str, goal: float, found: float) -> Row:
    """Return the row of a rate in events/s."""
    asked, measured = f">= {goal / 1e6:g} million", f"{found / 1e6:.1f} million"
    return Row(f"{what}: events/s of processor time", asked, measured, found >= goal)


def command() -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.otf2", description=(__doc__ or "").partition(":")[0]
    )
    parser.add_argument("--events", type=int, default=4_000_000, metavar="N", help="calls")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="mpiprof-otf2-") as name:
            return 0 if printed(promises(Path(name), args.events)) else THRESHOLD_MISSED
    except MpiprofError as error:
        print(f"mpiprof: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(command())
