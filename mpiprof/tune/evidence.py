"""How far the model is off: by what it says of what ran.

Of what ran on an algorithm of ours the model's time can be held against the recorded one. What the
library ran is not known, and among several candidates one comes near any number by chance. So its
calls are taken together: one algorithm must account for the times at all sizes of an operation,
and, where the ranks' times tell algorithms apart, for these. Each is one comparison; the choice of
the algorithm costs one. From few comparisons follows a wide doubt, by Student's t; from none, none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.analysis import tails
from mpiprof.trace.types import Float

CONFIDENCE = 0.95
TELLS_APART = 0.25  # the least of a misfit, of what other algorithms have: then ranks' times tell
UNKNOWN = (
    "how far the model is off is not known, as nothing that ran is like one of ours: measure it"
)


@dataclass(frozen=True)
class Compared:
    """What was recorded of calls, and what the model says of each algorithm.

    key: operation, processes and size class, the same for calls that are one comparison; recorded:
    the algorithm, None where it is not one of ours; time: its score; times: by algorithm the score;
    misfits: by algorithm, how far its ranks' times are from the recorded ones, of these.
    """

    key: tuple[object, ...]
    recorded: str | None
    time: float
    times: Mapping[str, float]
    misfits: Mapping[str, float]


def misfit(recorded: Float, modelled: Float) -> float:
    """Return how far ranks' times differ in their proportions, as a share of them."""
    whole, said = float(recorded.sum()), float(modelled.sum())
    size: float = float(np.square(recorded).mean()) ** 0.5
    if min(whole, said, size) <= 0:
        return math.inf
    apart: float = float(np.square(recorded - modelled * (whole / said)).mean()) ** 0.5
    return apart / size


def doubt(calls: Sequence[Compared]) -> float:
    """Return by which factor times of one operation may be off; infinite where nothing tells."""
    own = [_ratio(c, c.recorded) for c in calls if c.recorded is not None]
    library = [c for c in calls if c.recorded is None]
    known = set.intersection(*(set(c.times) for c in library)) if library else set()
    found = min((_errors(library, name) for name in known), key=_size, default=[])
    errors = [*own, *found]
    freedom = len(errors) - bool(found)
    if freedom < 1:
        return math.inf
    spread = (sum(e * e for e in errors) / freedom) ** 0.5
    return math.exp(min(tails.student_quantile(freedom, CONFIDENCE) * spread, 700.0))


def _errors(calls: Sequence[Compared], name: str) -> list[float]:
    """Return what an algorithm leaves open: each size's time, and ranks' where they tell."""
    of_size: dict[tuple[object, ...], list[float]] = {}
    for call in calls:
        of_size.setdefault(call.key, []).append(_ratio(call, name))
    found = [sum(ratios) / len(ratios) for ratios in of_size.values()]
    for call in calls:
        others = [value for other, value in call.misfits.items() if other != name]
        if others and call.misfits[name] < TELLS_APART * float(np.median(others)):
            found.append(call.misfits[name])
    return found


def _size(errors: Sequence[float]) -> float:
    return sum(e * e for e in errors) / max(len(errors) - 1, 0.5)


def _ratio(call: Compared, name: str | None) -> float:
    return math.log(call.time / call.times[str(name)])
