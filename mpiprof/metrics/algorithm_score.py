"""The score of an algorithm in an instance: the time in it that a better algorithm could save.

The score is the mean over ranks of exit minus the earliest exit that the operation allows
(metrics/wait_states.py). So the score excludes waiting for other ranks, which no algorithm can
shorten. A rank that left earlier counts 0, not less, because nobody need wait for an empty message.
`tune`, the studies and the recorder (core/selection/online/arrival.c, in whole ns) share this
definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.metrics.wait_states import Group, earliest_exit
from mpiprof.model.schedule import Problem
from mpiprof.operations import OPERATIONS
from mpiprof.trace.types import Float


def score_instances(operation: str, arrival_ns: Any, exit_ns: Any, problem: Problem) -> Float:
    """Return the score of each instance in ns.

    arrival, finish: ranks or ranks x instances, on one clock. Returns one value for one instance.
    """
    found: Float = score_parts(operation, arrival_ns, exit_ns, problem).mean(0)
    return found


def score_parts(operation: str, arrival_ns: Any, exit_ns: Any, problem: Problem) -> Float:
    """Return the contribution of each rank to the score in ns, in the shape of `exit_ns`."""
    sizes = problem.size, problem.remote_size
    group = Group(OPERATIONS[operation].wait_rule, sizes, problem.root)
    found: Float = np.maximum(exit_ns - earliest_exit(arrival_ns, group), 0)
    return found
