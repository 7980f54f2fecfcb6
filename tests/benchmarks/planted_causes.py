"""Planted causes and the causes that are reported: `python -m benchmarks.planted_causes`.

Simulated programs of 31 families have one cause of waiting each. The first sentence of the report
must name its ranks, place, onset and kind, and the cost must be that of the simulation. Programs
with noise only must lead to no accusation. The exit code is 3 if a requirement is missed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from support.planted_families import FAMILIES, STEPS, PlantedCause, noise_loops, planted_causes
from support.planted_loops import PlantedLoop

import mpiprof
from benchmarks.checks import Row, report_rows
from mpiprof.diagnosis.finding import MIN_CERTAINTY, Finding
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion
from mpiprof.trace import Trace

NOISE_TRACES = 200
MIN_RIGHT, MAX_WRONG = 0.92, 0.02
MAX_COST_ERROR, MIN_RIGHT_COSTS = 0.1, 0.9
MAX_ACCUSED_SHARE = 0.03
SAMPLED_TOLERANCE = 4  # steps, for each step between two consecutive ones of a sample
RIGHT, UNSURE, WRONG = "right", "unsure", "wrong"


@dataclass(frozen=True)
class Judgement:
    """A planted cause and the report on it.

    result: RIGHT, UNSURE (names nobody) or WRONG. fault: first wrong part. cost_ratio: reported
    over true cost. sentence: first one of the report about the cause.
    """

    cause: PlantedCause
    result: str
    fault: str
    cost_ratio: float | None
    sentence: str


def judge(cause: PlantedCause, folder: Path) -> Judgement:
    """Write the trace of a planted cause, and compare the report with the truth."""
    trace = mpiprof.open(cause.planted.build().write(folder))
    verdict = make_verdict(trace, trace.findings())
    lines = conclusion.verdict_lines(trace, verdict)
    sentence, first = " ".join(lines[1:2]), verdict.worst
    if first is None or first.certainty < MIN_CERTAINTY or first.cause == "noise":
        return Judgement(cause, UNSURE, "", None, sentence)
    fault = find_fault(cause, first, named_ranks(sentence))
    differ = first.evidence.get("each") or first.cause == "gradient"
    removed = range(trace.ranks) if differ else first.ranks
    # No other rank shows which work is usual for one that works alone: the cost is of all its work.
    is_alone = first.evidence.get("alone_ns") is not None
    # The cost in a ring is that of its part of the run.
    true_ns = None
    if not cause.planted.ring:
        true_ns = cause.planted.cost_ns(removed, with_usual_work=not is_alone)
    ratio = None if true_ns is None else first.cost_ns / max(true_ns, 1)
    return Judgement(cause, WRONG if fault else RIGHT, fault, ratio, sentence)


def find_fault(cause: PlantedCause, first: Finding, named: set[int]) -> str:
    """Return the first wrong part of a finding and its sentence, or ""."""
    ranks, allowed = set(first.ranks), set(cause.ranks)
    # A set of consecutive ranks or a node may be named as a whole.
    if not (set(cause.named) <= ranks <= allowed and named <= allowed):
        return f"ranks {sorted(first.ranks)} for {sorted(cause.named)}"
    if first.cause not in cause.causes:
        return f"{first.cause} for {cause.causes[0]}"
    if first.cause != "moving" and first.period != cause.period:
        return f"period {first.period} for {cause.period}"
    if first.first_instance is None or abs(first.first_instance - cause.first) > cause.tolerance:
        return f"from step {first.first_instance} on, for {cause.first}"
    if cause.planted.ring and cause.planted.loop.messages:
        return ""  # a ring has no calls on messages
    if find_sites(first) != cause.sites:
        return f"between {find_sites(first)} for {cause.sites}"
    return ""


def named_ranks(sentence: str) -> set[int]:
    """Return the ranks that a sentence names."""
    ranks: set[int] = set()
    # A long list ends with the number of omitted ranks.
    shown = re.sub(r" and \d+ more", "", sentence)
    for run in re.findall(r"\b[Rr]anks? (\d+(?:(?:-| to |, | and )\d+)*)", shown):
        for first, last in re.findall(r"(\d+)(?:(?:-| to )(\d+))?", run):
            ranks |= set(range(int(first), int(last or first) + 1))
    return ranks


def find_sites(finding: Finding) -> tuple[str, str] | None:
    """Return the operations of the calls around the late work, or None if the finding has none."""
    work = finding.evidence.get("work")
    if not work:
        return None
    before, after = (work[0][name].get("operation", "") for name in ("before", "after"))
    return before, after


def accusation(trace: Trace) -> str:
    """Return the sentence or finding that accuses somebody, or ""."""
    findings = trace.findings()
    lines = conclusion.verdict_lines(trace, make_verdict(trace, findings))
    for finding in findings:
        if finding.ranks and finding.certainty >= MIN_CERTAINTY:
            share = f"p = {1 - finding.certainty:.1g}, {finding.share:.1%}"
            return f"{finding.cause} {list(finding.ranks)} ({share})"
    accusing = [line for line in lines if named_ranks(line)]
    return accusing[0] if accusing else ""


def cause_rows(judgements: Sequence[Judgement]) -> Iterator[Row]:
    """Yield the requirements for all causes."""
    count = len(judgements)
    results = Counter(judgement.result for judgement in judgements)
    others = "".join(f", {results[result]} {result}" for result in (UNSURE, WRONG))
    measured = f"{results[RIGHT]} of {count} right{others}"
    is_met = results[RIGHT] >= MIN_RIGHT * count and results[WRONG] <= MAX_WRONG * count
    yield Row("first sentence", f">= {MIN_RIGHT:.0%}, <= {MAX_WRONG:.0%}", measured, is_met)
    ratios = [one.cost_ratio for one in judgements if one.cost_ratio is not None]
    exact = sum(abs(ratio - 1) <= MAX_COST_ERROR for ratio in ratios)
    measured = f"{exact} of {len(ratios)}"
    asked = f">= {MIN_RIGHT_COSTS:.0%}"
    yield Row("costs within 10 %", asked, measured, exact >= MIN_RIGHT_COSTS * len(ratios))


@dataclass(frozen=True)
class Recording:
    """Recorded calls: one of `sample` instances of collectives, or the last `ring` of each rank."""

    sample: int = 1
    ring: int = 0

    @property
    def steps(self) -> int:
        """Number of steps: enough for consecutive ones in a sample, and for a ring."""
        return STEPS * (2 if self.ring else self.sample**2)

    def limit(self, cause: PlantedCause) -> PlantedCause:
        """Return a cause whose trace has these calls only.

        The first step with the cause may be missing in a sample, and is in a ring.
        """
        planted = replace(cause.planted, sample=self.sample, ring=self.ring)
        missing = self.steps if self.ring else SAMPLED_TOLERANCE * (self.sample**2 - 1)
        tolerance = cause.tolerance + missing
        return replace(cause, planted=planted, tolerance=tolerance)


def rows(
    families: Sequence[str], noise: int, seed: int, recording: Recording = Recording()
) -> Iterator[Row]:
    """Judge all causes and noise traces, and yield a row for each family and requirement."""
    with tempfile.TemporaryDirectory(prefix="mpiprof-causes-") as made:
        folder, judgements = Path(made), list[Judgement]()
        for family in families:
            of_family = list[Judgement]()
            for cause in planted_causes(seed, (family,), recording.steps):
                path = folder / f"cause-{len(judgements) + len(of_family)}"
                of_family.append(judge(recording.limit(cause), path))
                _explain(of_family[-1])
            judgements += of_family
            results = Counter(judgement.result for judgement in of_family)
            others = "".join(f", {results[name]} {name}" for name in (UNSURE, WRONG))
            yield Row(family, "", f"{results[RIGHT]} of {len(of_family)} right{others}")
        if judgements:
            yield from cause_rows(judgements)
        if noise:
            yield _noise_row(folder, noise, seed, recording)


def _noise_row(folder: Path, count: int, seed: int, recording: Recording) -> Row:
    accused = 0
    for number, (name, loop) in enumerate(noise_loops(seed, count)):
        loop = replace(loop, sample=recording.sample, ring=recording.ring)
        found = accusation(_write_noise(loop, folder / f"noise-{number}"))
        accused += bool(found)
        if found:
            print(f"  noise {number}, {name}: {found}", file=sys.stderr)
    most = int(MAX_ACCUSED_SHARE * count)
    return Row(
        "accused in noise", f"<= {most} of {count}", f"{accused} of {count}", accused <= most
    )


def _write_noise(loop: PlantedLoop, folder: Path) -> Trace:
    return mpiprof.open(loop.build().write(folder))


def _explain(judgement: Judgement) -> None:
    """Print a wrong or unsure sentence, or a wrong cost."""
    ratio = judgement.cost_ratio
    is_exact = ratio is None or abs(ratio - 1) <= MAX_COST_ERROR
    if judgement.result == RIGHT and is_exact:
        return
    cost = "" if ratio is None else f", cost x {ratio:.2f}"
    head = f"  {judgement.cause}: {judgement.result} {judgement.fault}{cost}"
    print(f"{head}\n    {judgement.sentence}", file=sys.stderr)


def command() -> int:
    """Judge all causes, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=int, default=NOISE_TRACES, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--sample", type=int, default=1, metavar="K", help="one of K instances")
    parser.add_argument("--ring", type=int, default=0, metavar="N", help="the last N calls")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="all by default")
    args = parser.parse_args()
    families = args.families or list(FAMILIES)
    if unknown := set(families) - set(FAMILIES) - {"none"}:
        parser.error(f"unknown family {min(unknown)}; known are {', '.join(FAMILIES)}")
    families = [family for family in families if family in FAMILIES]
    recording = Recording(args.sample, args.ring)
    return report_rows(rows(families, args.noise, args.seed, recording))


if __name__ == "__main__":
    sys.exit(command())
