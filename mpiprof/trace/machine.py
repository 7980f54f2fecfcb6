"""Plausibility check of a machine table's message times, before factors are computed from them.

The bounds are generous. Any working node or network is well within them. Ranks that share cores, or
a node with other users, soon exceed them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mpiprof.interface.format_units import format_time

# Maximum time of an empty message, and of one byte, on a working link, in ns.
SLOWEST_LINK = {"within": (50e3, 20.0), "between": (20e6, 1000.0)}
MIN_BETA_NS = 0.002  # ns per byte; no processor copies 500 GB/s
LINK_NAMES = {"within": "within a node", "between": "between nodes"}
# Exchanges of small messages overlap, but a ping-pong waits for each message. A sound node has
# shown one way 2.4 times as long as both ways. Both ways take at most as long as two single ways,
# or as their bytes at the link's pace, because only an idle port sends its first bytes at once.
MAX_FACTOR_ONE, MAX_FACTOR_BOTH = 5.0, 4.0
# Minimum number of rounds in which no other process had the core, and maximum ratio of the median
# round time to T. Within both, T repeats within 30 % (docs/results/message-times.md).
MIN_REPETITIONS, MAX_SPREAD = 4, 1.3
NO_MESSAGE = 1 << 62  # bytes; without used messages, only impossible times are a fault
MOST_LISTED = 4  # unsteady sizes in a reason


def find_fault(table: Any, smallest: int = 0, *, in_series: bool = False) -> str:
    """Return why a machine table is unusable, or "" if it is usable or absent.

    smallest: bytes of the smallest used message. Shorter messages may be less steady,
    as far as this changes no time of a used message by more than the same limit.
    in_series: used messages follow each other, so that each takes at least its bytes at the link's
    pace. The time through an idle port may vary by a small part of this.
    """
    if not isinstance(table, Mapping):
        return ""
    links = ((name, table.get(name)) for name in SLOWEST_LINK)
    faults = (_find_link_fault(*link, smallest, in_series=in_series) for link in links)
    return next(filter(None, faults), "")


def _find_link_fault(name: str, link: Any, smallest: int, *, in_series: bool) -> str:
    if not isinstance(link, Mapping):
        return ""
    try:
        alpha, beta = float(link["alpha_ns"]), float(link["beta_ns_per_byte"])
        pace = float(link.get("pace_ns_per_byte") or beta)
        sizes = [int(size) for size in link.get("sizes") or ()]
        ones = [float(time) for time in link.get("one_way_ns") or ()]
        boths = [float(time) for time in link.get("both_ways_ns") or ()]
    except (KeyError, TypeError, ValueError):
        return f"the table {LINK_NAMES[name]} is damaged"
    most_alpha, most_beta = SLOWEST_LINK[name]
    empty = max([alpha, *ones[:1]])
    if not 0 <= empty <= most_alpha:
        return f"{format_time(empty)} for an empty message {LINK_NAMES[name]}"
    if beta > most_beta:
        return f"{1000 / beta:.2g} MB/s {LINK_NAMES[name]}"
    least = pace if in_series else 0.0
    unsteady = _find_unsteadiness(name, link, lambda size: alpha + beta * size, smallest, least)
    if unsteady:  # checked first, because impossible times follow from unsteady rounds
        return unsteady
    if not beta >= MIN_BETA_NS:
        return f"large messages are not slower than small ones {LINK_NAMES[name]}"
    for size, one_way, both in zip(sizes, ones, boths, strict=False):
        if not one_way > 0 < both or one_way > MAX_FACTOR_ONE * both:
            factor = _times_larger(one_way, both)
            return f"one way takes {factor} times as long as both ways {LINK_NAMES[name]}"
        if both > MAX_FACTOR_BOTH * max(one_way, pace * size):
            factor = _times_larger(both, one_way)
            return f"both ways take {factor} times as long as one way {LINK_NAMES[name]}"
    return ""


def _find_unsteadiness(
    name: str, link: Mapping[str, Any], time_ns: Callable[[int], float], smallest: int, pace: float
) -> str:
    """Return why times would not repeat, as far as the table describes the measurement; else "".

    pace: time in ns that a byte takes at least; 0 if messages do not follow each other.
    """
    try:
        sizes = [int(size) for size in link.get("sizes") or ()]
        rounds = [int(count) for count in link.get("undisturbed_rounds") or ()]
        spreads = [float(spread) for spread in link.get("spread") or ()]
    except (TypeError, ValueError):
        return f"the table {LINK_NAMES[name]} is damaged"
    # Between nodes a message takes so long that another process may use the core meanwhile.
    if name == "within" and rounds and min(rounds) < MIN_REPETITIONS:
        most = f"all but {min(rounds)}" if min(rounds) else "all"
        return f"other processes used the cores in {most} of the repetitions {LINK_NAMES[name]}"
    unsteady = []
    limit_ns = (MAX_SPREAD - 1) * time_ns(smallest)
    for size, spread in zip(sizes, spreads, strict=False):
        deviation_ns = (spread - 1) * time_ns(size)
        is_small = size < smallest and deviation_ns <= limit_ns
        is_hidden = deviation_ns <= (MAX_SPREAD - 1) * pace * size
        if not (spread <= MAX_SPREAD or is_small or is_hidden):
            unsteady.append((size, spread))
    if not unsteady:
        return ""
    listed = ", ".join(f"of {size} B by {spread:.1f}" for size, spread in unsteady[1:MOST_LISTED])
    more = f" and of {len(unsteady) - MOST_LISTED} more sizes" * (len(unsteady) > MOST_LISTED)
    size, spread = unsteady[0]
    first = f"repetitions of {size} B differ by a factor of {spread:.1f}"
    return f"{first}{', ' * bool(listed)}{listed}{more} {LINK_NAMES[name]}"


def _times_larger(long: float, short: float) -> str:
    return f"{long / short:.0f}" if short > 0 and math.isfinite(long) else "no"
