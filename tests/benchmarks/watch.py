"""Hangs that `run --watch` detects, and its false alarms: `python -m benchmarks.watch`.

Programs with one fault each run with a time limit. The benchmark measures the time from the limit,
or from the last call of any rank, to the verdict, and checks the verdict. A job that MPI or the
launcher ends earlier has no hang and is replaced. Then sound programs with long computations run,
and `run --watch` must not report them. The exit code is 3 if a requirement is missed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

import mpiprof
from benchmarks import faults, jobs
from benchmarks.checks import THRESHOLD_MISSED, Row, printed
from benchmarks.faults import Case
from mpiprof.errors import MpiprofError
from mpiprof.interface.progress import show_progress

COMPUTING = Path(__file__).with_name("computing.c")
CODE = 7  # which it ends with
RANKS = 3  # of a sound program
SHORTEST_S, LONGEST_S = 5, 60  # of its computations
WITHIN_S = 2.0  # of the limit
PATIENCE_S = 45.0  # with a fault; the programs that hang asleep wake after 60 s
DIED = ("segv", "kill", "term")
# If a rank has died, the launcher ends the other ranks, unless an option prevents it.
GO_ON = {"openmpi": ["--runtime-options", "recoverable"], "mpich": ["-disable-auto-cleanup"]}
# A rank that computes or writes files for ever does not hang, and MPI_Abort ends the job.
NO_HANGS = ("compute", "abort", "computing", "files", "slow_messages")
KINDS = {*faults.KINDS, *faults.MESSAGE_KINDS} - {*NO_HANGS}
WORD = "mpiprof: no call has begun or ended for"


@dataclass(frozen=True)
class Told:
    """Outcome of a job with a fault.

    after_s: time from the limit to the verdict, or None without a verdict. verdict: its class and
    ranks. ended: the job ended before the limit, so it had no hang.
    """

    case: Case
    after_s: float | None
    verdict: str
    ended: bool

    @property
    def is_right(self) -> bool:
        """Return True if the verdict is correct."""
        kind, odd = self.case.right
        return self.verdict == " ".join([kind, *map(str, odd)])


def fault(program: jobs.Program, case: Case, folder: Path, limit_s: float) -> Told:
    """Run a faulty program until its verdict or the time limit."""
    folder.mkdir()
    trace = folder / "trace"
    words = program.launcher.make_command(case.ranks, os.environ)
    if case.kind in DIED:
        words[1:1] = GO_ON[program.launcher.abi]
    act = "echo $HANG_VERDICT $HANG_RANKS"
    words += jobs.recording(trace, "--watch", f"{limit_s:g}s", "--on-hang", act)
    words += [str(program.path), *case.words]
    quiet, environment = subprocess.DEVNULL, jobs.killable(folder)
    with (folder / "said").open("w") as said:
        job = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=said, env=environment)
        try:
            told_ns = _wait_for_word(job, folder / "said")
            verdict = _read_soon(trace / "on-hang.txt") if told_ns else ""
            now_ns = time.monotonic_ns()
            quiet_s = _quiet_s(trace, told_ns or now_ns)
        finally:
            jobs.kill(job)
    shutil.rmtree(folder, ignore_errors=True)
    if told_ns:
        return Told(case, quiet_s - limit_s, verdict, ended=False)
    return Told(case, None, "", ended=quiet_s < limit_s)


def _wait_for_word(job: subprocess.Popen[bytes], said: Path) -> int:
    """Return the time of the verdict in ns, or 0 if the job or the time limit ended first."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        over = job.poll() is not None
        if WORD in said.read_text(errors="replace"):
            return time.monotonic_ns()
        if over:
            break
        time.sleep(0.02)
    return 0


def _read_soon(path: Path) -> str:
    """Return the output of a command that has just been started."""
    for _ in range(100):
        with suppress(OSError):
            if text := path.read_text().strip():
                return text
        time.sleep(0.02)
    return ""


def _quiet_s(trace: Path, now_ns: int) -> float:
    """Return the time since the last call, or 0 without a call."""
    try:
        events = mpiprof.open(trace).events
    except MpiprofError:
        return 0.0
    if events.empty:
        return 0.0
    last = max(int(events["enter_ns"].max()), int(events["exit_ns"].fillna(0).max()))
    return (now_ns - last) / 1e9


def hangs(folder: Path, count: int, limit_s: float, seed: int, at_once: int) -> Iterator[Row]:
    """Yield the outcomes of `count` faults that hang."""
    sources = (faults.SOURCE, faults.MESSAGE_SOURCE)
    programs = {source: jobs.compiled(source, folder) for source in sources}
    found: list[Told] = []
    ended: Counter[str] = Counter()
    chosen = (case for case in faults.cases(4 * count, seed) if case.kind in KINDS)
    with ThreadPoolExecutor(at_once) as pool, show_progress("faults", count) as step:
        number = 0
        while len(found) < count and (batch := list(islice(chosen, min(count - len(found), 20)))):
            folders = [folder / f"fault-{number + i}" for i in range(len(batch))]
            number += len(batch)
            tasks = zip(batch, folders, strict=True)
            for told in pool.map(
                lambda task: fault(programs[task[0].source], task[0], task[1], limit_s), tasks
            ):
                if told.ended:
                    ended[told.case.kind] += 1
                else:
                    found.append(told)
                    step(1)
    yield from _judged(found, count)
    others = ", ".join(f"{number} {kind}" for kind, number in sorted(ended.items()))
    yield Row("others that MPI ended before", "", others or "none")


def _judged(outcomes: list[Told], count: int) -> Iterator[Row]:
    late = sorted(outcome.after_s for outcome in outcomes if outcome.after_s is not None)
    yield Row(
        "reported after the limit",
        f"{count} of {count}",
        f"{len(late)} of {count}",
        len(late) == count,
    )
    if late:
        measured = f"{late[-1]:.2f} s ({late[0]:.2f} to {late[-1]:.2f}, median {median(late):.2f})"
        in_time = 0 <= late[0] <= late[-1] < WITHIN_S
        yield Row("slowest after the limit", f"< {WITHIN_S:g} s", measured, in_time)
    right = sum(outcome.is_right for outcome in outcomes)
    undecided = sum(outcome.verdict == "undecided" for outcome in outcomes)
    wrong = len(late) - right - undecided
    yield Row(
        *("class and ranks", "none wrong", f"{right} right, {undecided} undecided, {wrong} wrong"),
        wrong == 0,
    )
    for outcome in outcomes:
        if outcome.after_s is None or not (outcome.is_right and 0 <= outcome.after_s < WITHIN_S):
            after = "never" if outcome.after_s is None else f"{outcome.after_s:.2f} s"
            print(f"  {outcome.case}: {outcome.verdict or 'nothing'}, {after}", file=sys.stderr)


def alarms(folder: Path, minutes: float, limit_s: float, seed: int, at_once: int) -> Iterator[Row]:
    """Yield the messages about sound programs that compute; `at_once` run together."""
    program = jobs.compiled(COMPUTING, folder, "-pthread", "-lm")
    seconds = 60 * minutes / at_once
    with ThreadPoolExecutor(at_once) as pool:
        tasks = [
            pool.submit(_sound, program, folder / f"sound-{i}", seed + i, seconds, limit_s)
            for i in range(at_once)
        ]
        with show_progress("sound programs", round(seconds)) as step:
            while not all(task.done() for task in tasks):
                time.sleep(1)
                step(1)
        done = [task.result() for task in tasks]
    total = sum(one.seconds for one in done) / 60
    said = [text for one in done for text in one.said]
    computations = sum(one.computations for one in done)
    print("".join(f"  {text}\n" for text in said), end="", file=sys.stderr)
    measured = f"{len(said)} in {total:.0f} min, {computations} computations"
    yield Row("alarms in sound programs", f"none, {limit_s:g} s", measured, not said)


@dataclass(frozen=True)
class Sound:
    """A sound program: messages about it, number of computations, and run time."""

    said: list[str]
    computations: int
    seconds: float


def _sound(program: jobs.Program, folder: Path, seed: int, seconds: float, limit_s: float) -> Sound:
    folder.mkdir()
    words = program.launcher.make_command(RANKS, os.environ)
    words += jobs.recording(folder / "trace", "--watch", f"{limit_s:g}s")
    words += [str(program.path), *map(str, (seed, seconds, SHORTEST_S, LONGEST_S))]
    began = time.monotonic()
    with (folder / "out").open("w+") as out, (folder / "said").open("w+") as said:
        job = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=said)
        try:
            job.wait(seconds + PATIENCE_S + LONGEST_S)
        except subprocess.TimeoutExpired:
            jobs.kill(job)
        took = time.monotonic() - began
        for file in (out, said):
            file.seek(0)
        printed, lines = out.read(), said.read().splitlines()
    if job.returncode != CODE or not re.fullmatch(r"\d+ [\d.]+\n", printed):
        last = lines[-1] if lines else "it said nothing"
        raise MpiprofError(f"a sound program ended with {job.returncode}: {last}")
    return Sound([line for line in lines if line.startswith(WORD)], int(printed.split()[0]), took)


# ---- the command


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.watch", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--faults", type=int, default=200, metavar="N")
    parser.add_argument(
        "--minutes", type=float, default=60, metavar="M", help="of sound programs, together"
    )
    parser.add_argument("--limit", type=float, default=2, metavar="S", help="of --watch")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="with faults, at once")
    parser.add_argument("--programs", type=int, default=6, metavar="N", help="sound, at once")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    args = parser.parse_args()
    if min(args.jobs, args.programs) < 1 or min(args.faults, args.minutes) < 0:
        parser.error("at least one job at once, and nothing negative")
    if not 1 <= args.limit <= 10:
        parser.error("a limit from 1 to 10 s")
    return args


def command() -> int:
    """Print the table; returns the exit code."""
    args = arguments()
    parts: list[Callable[[Path], Iterator[Row]]] = []
    if args.faults:
        parts.append(lambda at: hangs(at, args.faults, args.limit, args.seed, args.jobs))
    if args.minutes:
        parts.append(lambda at: alarms(at, args.minutes, args.limit, args.seed, args.programs))
    try:
        with tempfile.TemporaryDirectory(prefix="mpiprof-watch-", ignore_cleanup_errors=True) as at:
            met = printed(row for part in parts for row in part(Path(at)))
    except MpiprofError as error:
        print(f"mpiprof: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if met else THRESHOLD_MISSED


if __name__ == "__main__":
    sys.exit(command())
