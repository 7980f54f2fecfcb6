"""The score of an algorithm in an instance: the time in it that a better algorithm could save.

The score is the mean over ranks of exit minus the earliest exit that the semantics allow. The
earliest exit is:
- in a synchronising operation, the last arrival (across an inter-communicator: of the other group
  and of the rank itself);
- in a broadcast or scatter, the later of the arrivals of the root and of the rank itself;
- in a gather or reduction, the last arrival at the root, and the rank's own arrival for a sender;
- in a scan, the last arrival of the ranks up to the rank itself.
So the score excludes waiting for other ranks, which no algorithm can shorten. A rank that left
earlier counts 0, not less, because nobody need wait for an empty message. `tune`, the studies and
the recorder (core/selection/online/arrival.c, in whole ns) share this definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.metrics.wait_rules import WAITS
from mpiprof.metrics.wait_states import EARLIEST, Group
from mpiprof.trace.types import Float


def score(operation: str, arrival: Any, finish: Any, group: Group) -> Float:
    """Return the score of each instance in ns.

    arrival, finish: ranks or ranks x instances, on one clock. Returns one value for one instance.
    """
    found: Float = parts(operation, arrival, finish, group).mean(0)
    return found


def parts(operation: str, arrival: Any, finish: Any, group: Group) -> Float:
    """Return the contribution of each rank to the score in ns, in the shape of `finish`."""
    earliest = EARLIEST[WAITS[operation]](arrival, group)
    found: Float = np.maximum(finish - earliest, 0)
    return found
