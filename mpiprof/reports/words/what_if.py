"""Predicted run times with changes that a user asks for, as text and data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mpiprof.causes.what_if import Prediction
from mpiprof.interface.format_units import capitalise, format_ranks, format_time
from mpiprof.trace.types import Float

MIN_SAVED_SHARE = 0.005  # of the run time; a smaller difference is not reported
MIN_UNSAVED_SHARE = 0.05  # of the removed work; a smaller difference is not reported
MIN_CHANGE_NS = 1_000  # of a rank's time


def prediction_text(prediction: Prediction) -> str:
    """Return the run time with the changes, and the ranks that they concern."""
    changes = " and ".join(map(str, prediction.changes))
    run_ns, predicted_ns = prediction.run_ns, prediction.predicted_ns
    recorded = format_time(run_ns)
    if abs(run_ns - predicted_ns) < MIN_SAVED_SHARE * run_ns:
        first = f"With {changes}, the run would take {recorded} as before."
    else:
        predicted = format_time(predicted_ns)
        first = f"With {changes}, the run would take {predicted} instead of {recorded}."
    return " ".join([first, *_rank_sentences(prediction)])


def prediction_as_data(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction for JSON."""
    return {
        "changes": [str(change) for change in prediction.changes],
        "run_ns": round(prediction.run_ns),
        "predicted_ns": round(prediction.predicted_ns),
        "work_ns": [round(time) for time in prediction.work_ns.tolist()],
        "calls_ns": [round(time) for time in prediction.calls_ns.tolist()],
        "text": prediction_text(prediction),
    }


def _rank_sentences(prediction: Prediction) -> Iterator[str]:
    """Yield how much less or more the ranks work, or that nothing changes."""
    parts = [
        ("work", "less", prediction.work_ns),
        ("work", "more", -prediction.work_ns),
        ("spend", "less in calls", prediction.calls_ns),
    ]
    changed = [part for part in parts if (part[2] >= MIN_CHANGE_NS).any()]
    for verb, end, time_ns in changed:
        unsaved = _unsaved_clause(prediction) if end == "less" else ""
        yield f"{_rank_clause(verb, time_ns)} {end}{unsaved}."
    if not changed:
        yield "No work is longer than that of the other ranks between the same calls."


def _unsaved_clause(prediction: Prediction) -> str:
    """Return how much of a rank's removed work shortens the run, "" if all of it does.

    The ranks that arrive last without this work determine the run time then.
    """
    saved = prediction.run_ns - prediction.predicted_ns
    least = MIN_SAVED_SHARE * prediction.run_ns
    if saved >= (1 - MIN_UNSAVED_SHARE) * float(prediction.work_ns.max()):
        return ""
    amount = (
        f"of which {format_time(saved)} shorten" if saved >= least else "which does not shorten"
    )
    return f", {amount} the run, because other ranks arrive last then"


def _rank_clause(verb: str, time_ns: Float) -> str:
    ranks = np.flatnonzero(time_ns >= MIN_CHANGE_NS).tolist()
    most = format_time(float(time_ns.max()))
    up_to = "up to " if len(ranks) > 1 else ""
    return f"{capitalise(format_ranks(ranks))} would {verb} {up_to}{most}"
