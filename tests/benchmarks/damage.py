"""Outcome of reading damaged traces: `python -m benchmarks.damage [--traces N] [--packed]`.

The benchmark damages a small synthetic trace at random, as disks and copies do: it flips bits,
overwrites bytes, zeroes, randomises, swaps or doubles blocks, and truncates files. Each reading
must end in an error, in a trace that names the missing content, or in the correct numbers. The
exit code is 1 if a trace gave wrong numbers without a warning. Ctrl-C prints the results so far,
and `--first` continues from there.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from support.synthetic import Synthetic, upgrade_folder

import mpiprof
from benchmarks.checks import Row, store
from mpiprof.errors import TraceError
from mpiprof.formats import pack_writer
from mpiprof.interface.progress import show_progress

MS = 1_000_000
BLOCK = 4096
ERROR, MARKED, SOUND, WRONG = "error", "marked", "sound", "wrong"
OUTCOMES = {
    ERROR: "one-line error",
    MARKED: "readable data, with the damage reported",
    SOUND: "correct numbers",
    WRONG: "wrong numbers without a warning",
}
Random = np.random.Generator


def write(folder: Path) -> Path:
    """Write 3 ranks on 2 nodes with blocking and nonblocking calls on two communicators."""
    trace = Synthetic(3, nodes=[0, 0, 1], offsets=[0, 10**9], drifts=[0, 1e-6])
    trace.add_communicator("pair", [0, 2])
    random = np.random.default_rng(0)
    base = np.arange(1, 31)[:, None] * MS
    for i, operation in enumerate(("allreduce", "bcast", "alltoallv", "barrier")):
        arrivals = base + i * 100 * MS + random.integers(0, 1000, (30, 3))
        exits = arrivals.max(1)[:, None] + [[9, 8, 7]]
        trace.add_collective(operation, arrivals, exits, root=0, site=f"app.py:{10 + i}:step")
    late = base[:, :1] + 1000 * MS + np.zeros((1, 2), np.int64)
    trace.add_collective("iallreduce", late, late + 5, "pair", completions=(late + 50, late + 90))
    trace.add_clock(2, 0, 2000, 100)
    trace.add_clock(2, 0, 10**11, 100, "finalize")
    trace.ended_ns = 10**11 + 1
    return upgrade_folder(trace.write(folder))


def _bits(content: bytearray, used: int, random: Random) -> None:
    for at in random.integers(0, used, int(random.integers(1, 20))):
        content[at] ^= 1 << int(random.integers(8))


def _bytes(content: bytearray, used: int, random: Random) -> None:
    at, length = int(random.integers(used)), int(random.integers(1, 64))
    length = min(length, len(content) - at)
    content[at : at + length] = random.integers(0, 256, length, np.uint8).tobytes()


def _digit(content: bytearray, used: int, random: Random) -> None:
    """Replace one digit; the other content stays readable."""
    digits = [at for at in range(used) if 48 <= content[at] <= 57]
    if digits:
        content[digits[int(random.integers(len(digits)))]] = 48 + int(random.integers(10))


def _zeros(content: bytearray, used: int, random: Random) -> None:
    at = int(random.integers(used)) // BLOCK * BLOCK
    content[at : at + BLOCK] = bytes(len(content[at : at + BLOCK]))


def _swapped(content: bytearray, used: int, random: Random) -> None:
    size = int(random.choice([32, 512, BLOCK]))
    a, b = (int(random.integers(used)) // size * size for _ in range(2))
    if max(a, b) + size <= len(content):
        part = bytes(content[a : a + size])
        content[a : a + size] = content[b : b + size]
        content[b : b + size] = part


def _doubled(content: bytearray, used: int, random: Random) -> None:
    size = int(random.choice([32, 512, BLOCK]))
    a, b = (int(random.integers(used)) // size * size for _ in range(2))
    content[a : a + size] = content[b : b + size]


def _cut(content: bytearray, used: int, random: Random) -> None:
    del content[int(random.integers(used)) :]


KINDS: tuple[Callable[[bytearray, int, Random], None], ...] = (
    *(_bits, _bytes, _digit, _zeros, _swapped, _doubled, _cut),
)


def damage(folder: Path, random: Random) -> list[str]:
    """Damage one to three places of a trace; returns a description of the damage."""
    done = []
    files = sorted(folder.iterdir())
    for _ in range(int(random.integers(1, 4))):
        path = files[int(random.integers(len(files)))]
        content = bytearray(path.read_bytes())
        # Most of a log is room that is not used: aim at what is.
        used = max(len(content.rstrip(b"\0")), 1)
        kind = KINDS[int(random.integers(len(KINDS)))]
        if content:
            kind(content, used, random)
            path.write_bytes(content)
            done.append(f"{path.name}: {kind.__name__[1:]}")
    return done


def numbers(folder: Path) -> tuple[pd.DataFrame, bool]:
    """Return the call sites of a trace, and True if the trace is marked as incomplete."""
    trace = mpiprof.open(folder)
    table, _ = trace.callsites, trace.instances
    text = table.select_dtypes(exclude=["object", "string"]).astype(float)
    text[["operation", "algorithm"]] = table[["operation", "algorithm"]].astype(str)
    text["sites"] = table["sites"].map(str)
    return text, not trace.is_complete or bool(trace.problems)


def outcome(folder: Path, sound: pd.DataFrame) -> str:
    """Return the outcome of reading a damaged trace."""
    try:
        figures, marked = numbers(folder)
    except TraceError:
        return ERROR
    if marked:
        return MARKED
    return SOUND if figures.equals(sound) else WRONG


def run(
    traces: range, seed: int, step: Callable[[int], Any], packed: bool = False
) -> tuple[Counter[str], list[str]]:
    """Return the number of traces per outcome, and the wrong ones; Ctrl-C ends it early."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with contextlib.suppress(KeyboardInterrupt), tempfile.TemporaryDirectory() as scratch:
        whole = write(Path(scratch) / "whole")
        sound, _ = numbers(whole)
        if packed:
            files = pack_writer.find_files(whole)
            pack_writer.write(whole, files, 3, lambda _: None)
            pack_writer.remove(files)
        for number in traces:
            folder = Path(scratch) / "damaged"
            shutil.copytree(whole, folder)
            done = damage(folder, np.random.default_rng((seed, number)))
            came = outcome(folder, sound)
            if came == WRONG:
                wrong.append(f"seed {seed}, trace {number}: {', '.join(done)}")
            counts[came] += 1
            shutil.rmtree(folder)
            step(1)
    return counts, wrong


def main() -> int:
    """Print the number of traces per outcome."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.damage", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--traces", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first")
    parser.add_argument("--packed", action="store_true", help="pack the trace before")
    args = parser.parse_args()
    with show_progress("damaging", args.traces) as step:
        traces = range(args.first, args.first + args.traces)
        counts, wrong = run(traces, args.seed, step, args.packed)
    if counts.total() < args.traces:
        print(f"interrupted: go on with --first {args.first + counts.total()} --seed {args.seed}")
    for name, meaning in OUTCOMES.items():
        print(f"{name:8} {counts[name]:7}")
        goal = "0" if name == WRONG else ""
        title = f"{'packed' if args.packed else 'unpacked'}: {meaning}"
        measured = f"{counts[name]} of {counts.total()}"
        store(Row(title, goal, measured, not goal or not counts[name]))
    print("\n".join(wrong[:20]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
