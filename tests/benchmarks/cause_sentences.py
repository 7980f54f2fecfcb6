"""The first sentences of a report about a cause, read and compared with the truth.

Sentences on a fact have times instead of steps: "once, at 4.01 ms", or "60 times ... from 44.0 ms
to 783 ms". The steps at these times count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.cause_judgement import RIGHT, UNSURE, WRONG, named_ranks

from benchmarks.live_programs import INSIDE, START, LiveProgram
from mpiprof.causes.delay_reasons import BLOCKED
from mpiprof.interface.parse_units import TIMES
from mpiprof.reports.words.delay_sentences import REASONS

CALL = r"(\S+) at (\S+?):(\d+)(?: ([\w<>]+))?(?:, [a-z]+ of [\w.]+)?(?: \(called at [^)]*\))?"
STEPS_FROM = re.compile(r"in (?:step|repetition)s? (\d+)(?: to (the end|\d+))?")
EVERY = re.compile(r"in every (\d+)\w\w (?:step|repetition) from (?:step|repetition) (\d+) on")
FEW = re.compile(r"in [\d,]+ of [\d,]+ (?:step|repetition)s: (\d+)")
TIME = r"([\d.]+) (ns|µs|ms|s)"
ONCE = re.compile(rf"once, at {TIME}")
MANY_TIMES = re.compile(rf"\d+ times.*? from {TIME} to {TIME}")
OFF = re.compile(r"off the processor (?:for|(?:up to )?\d+ times|(\d+) % of this time)")
EACH_RANK = "each rank in turn"
NOBODY = re.compile(r"no rank causes|no sure cause|the work of the ranks differs")
MAX_UNSTATED_SHARE = 0.1  # of the steps, at each end of the span of most of them
MIN_OFF_PERCENT = 50  # of the work, from which its ranks are off the processor
FindStep = Callable[[float], int]


@dataclass(frozen=True)
class Reading:
    """Contents of the sentences: ranks, calls around the work, span of steps, period and reason.

    calls: operation and function of each, None if no call site is named. last: None if the span
    lasts to the end. reason: None if it is unknown or not stated. is_mostly: whether the span
    contains most of the steps only.
    """

    ranks: set[int]
    calls: tuple[str, str] | None
    first: int
    last: int | None
    period: int | None
    reason: str | None
    is_mostly: bool = False


def read_sentences(program: LiveProgram, text: str, find_step: FindStep) -> Reading:
    """Return what the sentences about a cause say.

    Lines of the program's source must contain the calls. find_step: of a time in ns after the start
    of the run.
    """
    problem = re.split(r"\.(?:\s+(?=[A-Z0-9])|$)", text)[0]
    ranks = set(range(program.ranks)) if EACH_RANK in problem else named_ranks(problem)
    first, last, period = _read_steps(problem, find_step)
    reasons = [name for name, words in REASONS.items() if words.lower() in text.lower()]
    off = OFF.search(problem)
    if off and int(off[1] or 100) >= MIN_OFF_PERCENT:
        reasons.append(BLOCKED)
    reason = reasons[0] if len(reasons) == 1 else None
    calls, is_mostly = _read_calls(problem, program.source), MANY_TIMES.search(problem) is not None
    return Reading(ranks, calls, first, last, period, reason, is_mostly)


def _read_calls(problem: str, source: Path) -> tuple[str, str] | None:
    match = re.search(rf"inside {CALL}", problem)
    if match:
        return _name_call(match, source), INSIDE
    match = re.search(rf"between two calls of {CALL}", problem)
    if match:
        call = _name_call(match, source)
        return call, call
    match = re.search(rf"between (?:{CALL}|{START}) and (?={CALL})", problem)
    if match is None:
        return None
    after = re.compile(CALL).match(problem, match.end())
    assert after is not None
    return (_name_call(match, source) if match[1] else START), _name_call(after, source)


def _name_call(match: re.Match[str], source: Path) -> str:
    """Return operation and function of a call, or a fault if its line does not contain it."""
    operation, file, line, function = match.group(1, 2, 3, 4)
    lines = source.read_text("utf-8").splitlines()
    headers = source.parent / "live_work.h"
    if Path(file).name == headers.name:
        lines = headers.read_text("utf-8").splitlines()
    elif Path(file).name != source.name:
        return f"{operation} in another file, {file}"
    text = lines[int(line) - 1].lower() if int(line) <= len(lines) else ""
    # A method of mpi4py for objects may use other operations.
    if f"mpi_{operation}(" not in text and "world." not in text:
        return f"{operation} not at line {line}"
    return f"{operation} {function}"


def _read_steps(problem: str, find_step: FindStep) -> tuple[int, int | None, int | None]:
    """Return first step, last step (None if the run's), and period."""
    if match := ONCE.search(problem):
        step = find_step(float(match[1]) * TIMES[match[2]])
        return step, step, None
    if match := MANY_TIMES.search(problem):
        begin_ns, end_ns = (float(match[at]) * TIMES[match[at + 1]] for at in (1, 3))
        return find_step(begin_ns), find_step(end_ns), None
    if match := EVERY.search(problem):
        return int(match[2]), None, int(match[1])
    if match := FEW.search(problem):
        return int(match[1]), None, None
    if match := STEPS_FROM.search(problem):
        last = match[2] or match[1]
        return int(match[1]), None if last == "the end" else int(last), None
    return 0, None, None


def find_faults(program: LiveProgram, reading: Reading, reasons: set[str | None]) -> dict[str, str]:
    """Return the faults of a reading by part: ranks, place, onset, reason."""
    faults = {}
    if not (program.must_name <= reading.ranks <= set(program.late)):
        faults["ranks"] = f"{sorted(reading.ranks)} for {sorted(program.must_name)}"
    calls = reading.calls or ("", "")
    allowed = program.before.split("|"), program.after.split("|")
    if not all(call in right for call, right in zip(calls, allowed, strict=True)):
        faults["place"] = f"{reading.calls} for {program.before} to {program.after}"
    if not _is_onset_right(program, reading):
        faults["onset"] = f"{reading.first} to {reading.last}, period {reading.period}"
    if reading.reason not in reasons:
        faults["reason"] = f"{reading.reason} for {' or '.join(sorted(map(str, reasons)))}"
    return faults


def _is_onset_right(program: LiveProgram, reading: Reading) -> bool:
    last, end = (
        program.steps - 1 if step is None else step for step in (program.last, reading.last)
    )
    distance = max(abs(reading.first - program.first), abs(last - end))
    tolerance = max(program.tolerance, reading.is_mostly * MAX_UNSTATED_SHARE * program.steps)
    return distance <= tolerance and reading.period == program.period


def judge_sentences(
    program: LiveProgram, text: str, reasons: set[str | None], find_step: FindStep
) -> tuple[str, dict[str, str]]:
    """Return RIGHT, UNSURE or WRONG, and the faults by part.

    Sentences that name nobody, or neither a place nor a reason, are unsure; they do not mislead.
    """
    reading = read_sentences(program, text, find_step)
    faults = find_faults(program, reading, reasons)
    if not faults:
        return RIGHT, faults
    is_silent = NOBODY.search(text) is not None or not reading.ranks
    silent = {part for part in faults if part in ("place", "reason")}
    silent -= {"place"} if reading.calls is not None else set()
    silent -= {"reason"} if reading.reason is not None else set()
    return UNSURE if is_silent or set(faults) == silent else WRONG, faults
