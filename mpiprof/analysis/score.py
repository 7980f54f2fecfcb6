"""The score of an algorithm in an instance: the time in it that a better algorithm could save.

The mean over ranks of exit minus the earliest time that the operation's semantics allow: the last
arrival in a synchronising operation (of the other group and the own one's, across an
inter-communicator), of the root and the own one's in a broadcast or scatter, of all at the root of
a gather or reduction, the own one's of who only sends there, of the ranks up to the own one in a
scan. So waiting for others, which no algorithm can shorten, does not count. A rank that left before
(what is empty need not be waited for) counts nothing, not less.

`tune`, the studies and the recorder (core/auto/arrival.c, in whole ns) use this definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.analysis.operations import WAITS
from mpiprof.analysis.waits import EARLIEST, Group
from mpiprof.trace.types import Float


def score(operation: str, arrival: Any, finish: Any, group: Group) -> Float:
    """Return the score of each instance in ns.

    arrival, finish: ranks, or ranks x instances, on one clock; one value for the former.
    """
    found: Float = parts(operation, arrival, finish, group).mean(0)
    return found


def parts(operation: str, arrival: Any, finish: Any, group: Group) -> Float:
    """Return what each rank adds to the score, in ns, shaped as `finish`."""
    earliest = EARLIEST[WAITS[operation]](arrival, group)
    found: Float = np.maximum(finish - earliest, 0)
    return found
