"""Trials of a work, and the verdict on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.collectives.tune.tasks import TuningTask
from mpiprof.trace.types import Float

HOT_SHARE = 0.005  # share of the time in collectives; cheaper works get no entry
MIN_GAIN = 0.03  # share of the score; a smaller gain does not justify a change
FEW_INSTANCES = 3  # instances
CONFIDENCE = 0.95
MAX_DOUBT = 3.0  # a model with a larger doubt does not describe the machine
MODEL, REPLAY = "model", "replay"
YES, DOUBTFUL, NO = "yes", "doubtful", "no"


@dataclass(frozen=True)
class Trial:
    """Scores of one candidate in ns, one per sampled instance; NaN if it was not tried there."""

    name: str
    scores: Float


@dataclass(frozen=True)
class Result:
    """All trials of a work."""

    work: TuningTask
    method: str
    base_scores: Float  # of the present algorithm, as in trials
    weights: Float
    trials: tuple[Trial, ...]
    doubt: float = 1.0  # factor by which model times may be wrong, 1 if they were measured
    note: str = ""  # a further remark


@dataclass(frozen=True)
class TuningVerdict:
    """The best candidate, and its gain over `base` per instance; ns, NaN if nothing was tried."""

    result: Result
    best: str
    base_ns: float
    best_ns: float
    gain_ns: float
    low_ns: float
    high_ns: float
    worth: str  # "yes"; "doubtful" for an expected gain within the doubt; "no"
    reason: str = ""  # why `worth` is not "yes"

    def total_saving(self, gain_ns: float) -> float:
        """Return the total over all ranks and instances of a gain per instance."""
        return gain_ns * self.result.work.instances * self.result.work.members


def weighted_mean(values: Float, weights: Float) -> float:
    """Return the weighted mean of the known values, or NaN if there are none."""
    valid = ~np.isnan(values)
    return float(np.average(values[valid], weights=weights[valid])) if valid.any() else float("nan")


def interval_half_width(values: Float, weights: Float, comparisons: int) -> float:
    """Return half of the confidence interval of a weighted mean; infinite for one value."""
    valid = ~np.isnan(values)
    v, w = values[valid], weights[valid]
    if len(v) < 2:
        return float("inf")
    from scipy import special

    w = w / w.sum()
    effective = 1 / float((w**2).sum())
    variance = float((w * (v - np.average(v, weights=w)) ** 2).sum()) * effective
    # The error probability is divided by the number of comparisons (Bonferroni). Otherwise the best
    # of several candidates would look better than it is.
    t = special.stdtrit(max(effective - 1, 1), 1 - (1 - CONFIDENCE) / 2 / max(comparisons, 1))
    return float(t * (variance / max(effective - 1, 1) / effective) ** 0.5)


def judge(result: Result, collectives_ns: float) -> TuningVerdict:
    """Return the verdict on a result; `collectives_ns`: time of all collectives over all ranks."""
    nan = float("nan")
    tried = [t for t in result.trials if not np.isnan(result.base_scores - t.scores).all()]
    if not tried:
        base = weighted_mean(result.base_scores, result.weights)
        return TuningVerdict(
            result, "", base, nan, nan, nan, nan, NO, result.note or "nothing applies"
        )
    # Candidates that were dropped early have met fewer patterns than the rest.
    largest_count = max(_count_measured(t) for t in tried)
    comparable = [t for t in tried if 2 * _count_measured(t) >= largest_count]
    weights = result.weights
    trial = max(comparable, key=lambda t: weighted_mean(result.base_scores - t.scores, weights))
    # Only patterns that both ran.
    paired_base = np.where(np.isnan(trial.scores), np.nan, result.base_scores)
    half = interval_half_width(paired_base - trial.scores, weights, len(tried))
    gain = weighted_mean(paired_base - trial.scores, weights)
    base = weighted_mean(paired_base, weights)
    now = base - gain
    low, high = base - now * result.doubt - half, min(base - now / result.doubt + half, base)
    worth, reason = YES, ""
    if result.work.elapsed_ns < HOT_SHARE * collectives_ns:
        worth, reason = NO, "it takes too little time"
    elif result.work.instances < FEW_INSTANCES:
        worth, reason = NO, "it is called too few times"
    elif gain < MIN_GAIN * base:
        worth, reason = NO, "the possible gain is negligible"
        if gain <= 0:
            reason = "the current algorithm is the fastest"
    elif low <= 0 or result.doubt > MAX_DOUBT:
        worth, reason = DOUBTFUL, result.note or "the gain is smaller than its uncertainty"
    return TuningVerdict(result, trial.name, base, now, gain, low, high, worth, reason)


def _count_measured(trial: Trial) -> int:
    return int((~np.isnan(trial.scores)).sum())
