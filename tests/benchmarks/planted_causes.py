"""Planted causes and the causes that are reported: `python -m benchmarks.planted_causes`.

Judges all cases of the specifications in tests/causes that have several. The first sentence of the
report must name ranks, calls, steps and kind of the cause, and its costs must be those of the
simulation. Fair programs must lead to no accusation. The exit code is 3 if a requirement is missed.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from support.cause_judgement import INEXACT, MAX_SAVING_ERROR, RIGHT, UNSURE, WRONG, stated_run_ns
from support.cause_loops import make_loop
from support.cause_specs import Result, name_class, run_case
from support.fair_judgement import find_false_accusation
from support.spec_files import STEPS, Case, Spec, read_specs

import mpiprof
from benchmarks.checks import Row, report_rows

FAIR_CASES = 200
MIN_RIGHT, MAX_WRONG = 0.92, 0.02
MIN_RIGHT_COSTS = 0.9
MAX_ACCUSED_SHARE = 0.03
MAX_ROUNDING = 0.006  # of a time with three digits
SAMPLED_TOLERANCE = 4  # steps, for each step between two consecutive ones of a sample


@dataclass(frozen=True)
class Recording:
    """Recorded calls: one of `sample` instances of collectives, or the last `ring` of each rank."""

    sample: int = 1
    ring: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """Return the parameters of a program that differ from the complete record."""
        return {name: value for name, value in vars(self).items() if value > (name == "sample")}

    @property
    def steps(self) -> int:
        """Number of steps: enough for consecutive ones in a sample, and for a ring."""
        return STEPS * (2 if self.ring else self.sample**2)

    def limit(self, case: Case) -> Case:
        """Return a case whose trace has these calls only.

        The first step with the cause may be missing in a sample, and is in a ring. A ring has no
        calls on messages.
        """
        missing = self.steps if self.ring else SAMPLED_TOLERANCE * (self.sample**2 - 1)
        expected = replace(case.expected, tolerance=case.expected.tolerance + missing)
        if self.ring and case.parameters.get("loop") not in ("collectives", "nonblocking"):
            expected = replace(expected, calls=())
        return replace(case, expected=expected)


def cause_rows(results: Sequence[Result]) -> Iterator[Row]:
    """Yield the requirements for all causes."""
    count, classes = len(results), count_classes(results)
    is_met = classes[RIGHT] >= MIN_RIGHT * count and classes[WRONG] <= MAX_WRONG * count
    asked = f">= {MIN_RIGHT:.0%}, <= {MAX_WRONG:.0%}"
    yield Row("first sentence", asked, describe_classes(results), is_met)
    for name in ("saved_ratio", "wait_ratio"):
        ratios = [getattr(one, name) for one in results]
        ratios = [ratio for ratio in ratios if ratio is not None]
        exact = sum(is_exact(ratio) for ratio in ratios)
        what = "run time" if name == "saved_ratio" else "waiting"
        measured, is_met = f"{exact} of {len(ratios)}", exact >= MIN_RIGHT_COSTS * len(ratios)
        yield Row(f"saved {what} within 10 %", f">= {MIN_RIGHT_COSTS:.0%}", measured, is_met)

    stated = [one for one in results if not math.isnan(stated_run_ns(one.report.problem))]
    stated = [one for one in stated if not math.isnan(one.report.predicted_ns)]
    equal = sum(
        abs(stated_run_ns(one.report.problem) / one.report.predicted_ns - 1) <= MAX_ROUNDING
        for one in stated
    )
    measured, is_met = f"{equal} of {len(stated)}", equal == len(stated)
    yield Row("sentence and --what-if agree", "all", measured, is_met)


def is_exact(ratio: float | None) -> bool:
    """Return whether a reported time over the true time is near 1, or unknown."""
    return ratio is None or abs(ratio - 1) <= MAX_SAVING_ERROR


def count_classes(results: Sequence[Result]) -> Counter[str]:
    """Return the number of results of each class; sentences with a wrong saving are right."""
    classes = Counter(name_class(result.judgement) for result in results)
    classes[RIGHT] += classes.pop(INEXACT, 0)
    return classes


def describe_classes(results: Sequence[Result]) -> str:
    """Return the numbers of right, unsure and wrong sentences."""
    classes = count_classes(results)
    numbers = f"{classes[RIGHT]} of {len(results)} right"
    return f"{numbers}, {classes[UNSURE]} unsure, {classes[WRONG]} wrong"


def rows(
    specs: Sequence[Spec], fair_cases: int, seed: int, recording: Recording = Recording()
) -> Iterator[Row]:
    """Judge all cases, and yield a row for each specification and requirement."""
    results = list[Result]()
    with tempfile.TemporaryDirectory(prefix="mpiprof-causes-") as made:
        for spec in specs:
            if not spec.has_cause:
                continue
            of_spec = list[Result]()
            for number in range(spec.cases):
                case = recording.limit(spec.make_case(number, seed, recording.steps))
                folder = Path(made) / f"cause-{len(results) + number}"
                of_spec.append(run_case(spec, case, folder, **recording.options))
                _explain(of_spec[-1], number)
            results += of_spec
            yield Row(str(spec), "", describe_classes(of_spec))
        if results:
            yield from cause_rows(results)
        fair = [spec for spec in specs if not spec.has_cause]
        if fair and fair_cases:
            yield _judge_fair_cases(fair, Path(made), fair_cases, seed, recording)


def _judge_fair_cases(
    specs: Sequence[Spec], folder: Path, count: int, seed: int, recording: Recording
) -> Row:
    """Judge the first cases of all specifications, of each the same share."""
    total, judged, accused = sum(spec.cases for spec in specs), 0, 0
    for spec in specs:
        for number in range(round(spec.cases * min(count / total, 1))):
            judged += 1
            case = spec.make_case(number, seed)
            loop = make_loop(**case.parameters, **recording.options)
            trace = mpiprof.open(loop.build().write(folder / f"fair-{judged}"))
            if accusation := find_false_accusation(trace, loop):
                accused += 1
                print(f"  {spec}, case {number}: {accusation}", file=sys.stderr)
    most = int(MAX_ACCUSED_SHARE * judged)
    asked = f"<= {most} of {judged}"
    return Row("accused in noise", asked, f"{accused} of {judged}", accused <= most)


def _explain(result: Result, number: int) -> None:
    """Print a wrong or unsure sentence, or wrong costs."""
    costs = [
        f", {name} x {ratio:.2f}"
        for name, ratio in (("run time", result.saved_ratio), ("waiting", result.wait_ratio))
        if not is_exact(ratio)
    ]
    if result.judgement != RIGHT or costs:
        head = f"  {result.spec}, case {number}: {result.judgement}{''.join(costs)}"
        print(f"{head}\n    {result.report.problem}", file=sys.stderr)


def command() -> int:
    """Judge all cases, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=int, default=FAIR_CASES, metavar="N", help="fair cases")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--sample", type=int, default=1, metavar="K", help="one of K instances")
    parser.add_argument("--ring", type=int, default=0, metavar="N", help="the last N calls")
    parser.add_argument("names", nargs="*", metavar="FILE", help="'none' or files; all by default")
    args = parser.parse_args()
    specs = [spec for spec in read_specs() if spec.cases > 1]
    files = {spec.file for spec in specs}
    if unknown := set(args.names) - files - {"none"}:
        parser.error(f"unknown file {min(unknown)}; known are {', '.join(sorted(files))}")
    chosen = [
        spec for spec in specs if not spec.has_cause or not args.names or spec.file in args.names
    ]
    return report_rows(rows(chosen, args.noise, args.seed, Recording(args.sample, args.ring)))


if __name__ == "__main__":
    sys.exit(command())
