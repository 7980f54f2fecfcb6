"""The first sentences of a report about a cause, read and compared with the truth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from support.cause_judgement import RIGHT, UNSURE, WRONG, named_ranks

from benchmarks.live_programs import START, LiveProgram
from mpiprof.reports.delay_sentences import REASONS

CALL = r"(\S+) at (\S+?):(\d+)(?: ([\w<>]+))?(?: \(called at [^)]*\))?"
STEPS_FROM = re.compile(r"in (?:step|repetition)s? (\d+)(?: to (the end|\d+))?")
EVERY = re.compile(r"in every (\d+)\w\w (?:step|repetition) from (?:step|repetition) (\d+) on")
FEW = re.compile(r"in [\d,]+ of [\d,]+ (?:step|repetition)s: (\d+)")
NOBODY = re.compile(r"no rank causes|no sure cause|the work of the ranks differs")


@dataclass(frozen=True)
class Reading:
    """Contents of the sentences: ranks, calls around the work, span of steps, period and reason.

    calls: operation and function of each, None if no call site is named. last: None if the span
    lasts to the end. reason: None if it is unknown or not stated.
    """

    ranks: set[int]
    calls: tuple[str, str] | None
    first: int
    last: int | None
    period: int | None
    reason: str | None


def read_sentences(text: str, source: Path) -> Reading:
    """Return what the sentences about a cause say. Lines of the source must contain the calls."""
    problem = re.split(r"\.(?:\s+(?=[A-Z0-9])|$)", text)[0]
    first, last, period = _read_steps(problem)
    reasons = [name for name, words in REASONS.items() if words.lower() in text.lower()]
    reason = reasons[0] if len(reasons) == 1 else None
    return Reading(named_ranks(problem), _read_calls(problem, source), first, last, period, reason)


def _read_calls(problem: str, source: Path) -> tuple[str, str] | None:
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


def _read_steps(problem: str) -> tuple[int, int | None, int | None]:
    """Return first step, last step (None if the run's), and period."""
    if match := EVERY.search(problem):
        return int(match[2]), None, int(match[1])
    if match := FEW.search(problem):
        return int(match[1]), None, None
    if match := STEPS_FROM.search(problem):
        last = match[2] or match[1]
        return int(match[1]), None if last == "the end" else int(last), None
    return 0, None, None


def find_faults(program: LiveProgram, reading: Reading, reasons: set[str]) -> dict[str, str]:
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
        faults["reason"] = f"{reading.reason} for {' or '.join(sorted(reasons))}"
    return faults


def _is_onset_right(program: LiveProgram, reading: Reading) -> bool:
    last, end = (
        program.steps - 1 if step is None else step for step in (program.last, reading.last)
    )
    distance = max(abs(reading.first - program.first), abs(last - end))
    return distance <= program.tolerance and reading.period == program.period


def judge_sentences(
    program: LiveProgram, text: str, reasons: set[str]
) -> tuple[str, dict[str, str]]:
    """Return RIGHT, UNSURE or WRONG, and the faults by part.

    Sentences that name nobody, or neither a place nor a reason, are unsure; they do not mislead.
    """
    reading = read_sentences(text, program.source)
    faults = find_faults(program, reading, reasons)
    if not faults:
        return RIGHT, faults
    is_silent = NOBODY.search(text) is not None or not reading.ranks
    silent = {part for part in faults if part in ("place", "reason")}
    silent -= {"place"} if reading.calls is not None else set()
    silent -= {"reason"} if reading.reason is not None else set()
    return UNSURE if is_silent or set(faults) == silent else WRONG, faults
