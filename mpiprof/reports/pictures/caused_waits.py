"""Picture of the waiting at a call site by rank: what its work causes, above what it waits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mpiprof.interface import svg
from mpiprof.interface.format_units import capitalise, format_count, format_ranks, format_time
from mpiprof.interface.svg import TableRow
from mpiprof.trace.types import Bool, Float, Int

MAX_BARS = 96  # more ranks are joined to runs of ranks, with the sum of their waiting
LEFT, TOP, BOTTOM = 66.0, 30.0, 22.0  # px of the names, of the label above and of the axis
CAUSED_SHARE = 0.6  # of the height
MAX_TICKS = 9


@dataclass(frozen=True)
class CausedWaits:
    """Waiting at a call site by rank in ns: that its work causes, and its own.

    blamed: ranks in accent. verb: relation of a rank to `caused_ns`, if its causes are unknown.
    """

    caused_ns: Float
    wait_ns: Float
    blamed: Bool
    verb: str = "causes"

    def list_values(self) -> list[TableRow]:
        """Return the data of the picture: the waiting that each rank causes, and its own."""
        columns = self.caused_ns.tolist(), self.wait_ns.tolist()
        return [
            ("rank", "caused_ns", "wait_ns"),
            *zip(range(len(columns[0])), *columns, strict=True),
        ]

    @property
    def mean_caused_ns(self) -> float:
        """Waiting that the blamed ranks cause, mean of all ranks."""
        return float(self.caused_ns[self.blamed].sum()) / max(len(self.caused_ns), 1)

    @property
    def sentence(self) -> str:
        """Content of the picture, for readers who do not see it."""
        waiting = int(((self.wait_ns > 0) & ~self.blamed).sum())
        ranks = f"{format_count(waiting)} other rank{'s' * (waiting != 1)}"
        waits = f"{ranks} wait{'s' * (waiting == 1)}."
        if not self.blamed.any():
            return f"No rank is blamed for the waiting here; {waits.replace(' other', '')}"
        return f"{capitalise(self.describe_blamed())}; {waits}"

    def describe_blamed(self, length: float = math.inf) -> str:
        """Return the waiting that the blamed ranks cause, in a text of at most this length."""
        who = np.flatnonzero(self.blamed).tolist()
        caused, count = format_time(self.mean_caused_ns), format_count(len(self.blamed))
        cause = f"{format_ranks(who)} cause{'s' * (len(who) == 1)} {caused}"
        texts = f"{cause} of waiting here, mean of {count} ranks", f"{cause}, mean of {count} ranks"
        return next((text for text in texts if len(text) <= length), cause)


def draw_caused_waits(waits: CausedWaits, width: float = 760, height: float = 290) -> str:
    """Return the picture; both halves have a scale of their own."""
    count = len(waits.caused_ns)
    starts = np.linspace(0, count, min(count, MAX_BARS) + 1).astype(int)[:-1]
    caused, waited = (np.add.reduceat(of, starts) for of in (waits.caused_ns, waits.wait_ns))
    blamed = np.logical_or.reduceat(waits.blamed, starts)
    room = height - TOP - BOTTOM
    middle, bottom = TOP + CAUSED_SHARE * room, height - BOTTOM
    step = (width - LEFT - 8) / len(starts)
    wide = max(min(step - 1, 44.0), 1.0)
    parts = [
        svg.make_text(LEFT - 10, (TOP + middle) / 2 + 4, waits.verb, "ink2", anchor="end", size=12),
        svg.make_text(LEFT - 10, (middle + bottom) / 2 + 4, "waits", "ink2", anchor="end", size=12),
        svg.make_line(LEFT, middle, width - 8, middle, svg.stroke("line2")),
    ]
    rows = zip(caused.tolist(), waited.tolist(), blamed.tolist(), strict=True)
    for i, (up, down, is_late) in enumerate(rows):
        x = LEFT + (i + 0.5) * step - wide / 2
        high = (middle - TOP - 2) * up / max(float(caused.max()), 1.0)
        low = (bottom - middle - 4) * down / max(float(waited.max()), 1.0)
        ink = svg.fill("late") if is_late else svg.fill("q3")
        if high > 0.1:
            parts.append(svg.make_rectangle(x, middle - high, wide, high, ink))
        if low > 0.1:
            parts.append(svg.make_rectangle(x, middle + 1, wide, low, svg.hatch("hatch", wide)))
    parts += _draw_labels(waits, starts, step, float(caused.max()), width)
    for i in np.unique(np.linspace(0, len(starts) - 1, min(MAX_TICKS, len(starts))).astype(int)):
        x = LEFT + (i + 0.5) * step
        parts.append(svg.make_text(x, height - 6, str(int(starts[i])), anchor="middle"))
    parts.append(svg.make_text(LEFT - 10, height - 6, "rank", anchor="end"))
    return svg.make_picture(width, height, waits.sentence, parts)


def _draw_labels(
    waits: CausedWaits, starts: Int, step: float, largest: float, width: float
) -> list[str]:
    """Return the name and the time of the blamed ranks, above their highest bar."""
    who = np.flatnonzero(waits.blamed)
    if not len(who) or not largest > 0:
        return []
    first = int(who[waits.caused_ns[who].argmax()])
    at = int(np.searchsorted(starts, first, side="right")) - 1
    text = waits.describe_blamed((width - LEFT) / svg.measure_text("0", 13))
    half = svg.measure_text(text, 13) / 2
    x = min(max(LEFT + (at + 0.5) * step, LEFT + half), width - 8 - half)
    return [svg.make_text(x, TOP - 8, text, "late-text", anchor="middle", size=13, bold=True)]
