"""Estimates the error of the model by comparing its predictions with the recorded times.

If a recorded call ran on an mpiprof algorithm, its recorded time is compared with the model's time
of that algorithm. The library's algorithm is unknown, and among several candidates one would match
any single time by chance. So the library's calls are taken together. One algorithm must explain the
times at all sizes of an operation, and also the ranks' times, if these distinguish algorithms. Each
size or rank distribution is one comparison, and the choice of the algorithm costs one degree of
freedom. By Student's t, few comparisons result in a wide doubt, and none in an infinite one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Float

CONFIDENCE = 0.95
# The ranks' times count if a misfit is below this share of the others' median.
MIN_RELATIVE_SPREAD = 0.25
UNKNOWN = (
    "the error of the model is unknown, because no recorded algorithm matches one of the "
    "catalogue: measure it"
)


@dataclass(frozen=True)
class Comparison:
    """Recorded time of calls, and the model's time for each algorithm."""

    key: tuple[object, ...]  # operation, processes, size class; equal keys are one comparison
    recorded: str | None  # the algorithm, or None if it is not one of mpiprof
    time: float  # its score
    times: Mapping[str, float]  # model score by algorithm
    misfits: Mapping[str, float]  # by algorithm, relative error of the model's rank times


def compute_misfit(recorded: Float, modelled: Float) -> float:
    """Return the relative RMS error of the ranks' times, after scaling to equal sums."""
    whole, predicted = float(recorded.sum()), float(modelled.sum())
    size: float = float(np.square(recorded).mean()) ** 0.5
    if min(whole, predicted, size) <= 0:
        return math.inf
    apart: float = float(np.square(recorded - modelled * (whole / predicted)).mean()) ** 0.5
    return apart / size


def compute_doubt(calls: Sequence[Comparison]) -> float:
    """Return the factor by which model times may be off; infinite without comparisons."""
    recorded_name = [_time_ratio(c, c.recorded) for c in calls if c.recorded is not None]
    library = [c for c in calls if c.recorded is None]
    names = set.intersection(*(set(c.times) for c in library)) if library else set()
    candidates = (_errors_by_size(library, name) for name in names)
    library_errors = min(candidates, key=_error_size, default=[])
    errors = [*recorded_name, *library_errors]
    freedom = len(errors) - bool(library_errors)
    if freedom < 1:
        return math.inf
    from scipy import special

    spread = (sum(e * e for e in errors) / freedom) ** 0.5
    return math.exp(min(float(special.stdtrit(freedom, CONFIDENCE)) * spread, 700.0))


def _errors_by_size(calls: Sequence[Comparison], name: str) -> list[float]:
    """Return an algorithm's errors: for each size its time, and the ranks' times if they count."""
    of_size: dict[tuple[object, ...], list[float]] = {}
    for call in calls:
        of_size.setdefault(call.key, []).append(_time_ratio(call, name))
    errors = [sum(ratios) / len(ratios) for ratios in of_size.values()]
    for call in calls:
        misfits = [value for other_name, value in call.misfits.items() if other_name != name]
        if misfits and call.misfits[name] < MIN_RELATIVE_SPREAD * float(np.median(misfits)):
            errors.append(call.misfits[name])
    return errors


def _error_size(errors: Sequence[float]) -> float:
    return sum(e * e for e in errors) / max(len(errors) - 1, 0.5)


def _time_ratio(call: Comparison, name: str | None) -> float:
    return math.log(call.time / call.times[str(name)])
