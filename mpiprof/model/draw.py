"""Space-time diagrams of a simulated schedule: as text, and as a page that needs nothing else.

Processes are below each other, time goes to the right. Each process has two lanes: what it sends
above, what it receives below.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from mpiprof.model.events import Message
from mpiprof.model.simulate import Timing

SENDS, RECEIVES, LASTS, WAITS, ENDS = "→", "←", "─", "·", "┃"
LEGEND = (
    f"{SENDS}3 sends to 3, {RECEIVES}5 receives from 5, {WAITS} waits or reduces, "
    f"blank before its arrival, {ENDS} has ended"
)
UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))

# The page: sizes in pixels.
WIDTH, LANE, GAP, MARGIN, TOP = 1100, 9, 6, 60, 30


def names_of(size: int, remote_size: int = 0) -> list[str]:
    """Return the processes' names: their ranks, those of a remote group with an r before."""
    return [str(i) for i in range(size)] + [f"r{i}" for i in range(remote_size)]


def text(timing: Timing, names: Sequence[str], width: int) -> str:
    """Return a diagram of so many characters a line."""
    left = max(4, *(len(name) for name in names)) + 1
    cells = width - left - 2
    whole = _whole(timing)

    def place(time: float) -> int:
        return min(cells, round(time / whole * cells))

    lines = []
    for i, name in enumerate(names):
        begin, end = place(timing.arrivals[i]), place(timing.finish[i])
        for sending in (True, False):
            row = [" "] * begin + [WAITS] * (end - begin) + [ENDS] + [" "] * (cells - end)
            for m in _own(timing.messages, i, sending):
                first, last = place(m.start), place(m.end)
                peer = names[m.target if sending else m.source]
                label = (SENDS if sending else RECEIVES) + peer
                row[first:last] = label.ljust(last - first, LASTS)[: last - first]
            lines.append(f"{name if sending else '':>{left}} " + "".join(row).rstrip())
    return "\n".join([*lines, _axis(whole, cells, left), LEGEND])


def _own(messages: Sequence[Message], process: int, sending: bool) -> list[Message]:
    mine = [m for m in messages if (m.source if sending else m.target) == process]
    return sorted(mine, key=lambda m: m.start)


def _whole(timing: Timing) -> float:
    return max(float(timing.finish.max()), 1.0)


def ticks(whole: float, most: int) -> list[tuple[float, str]]:
    """Return round times within a span and their texts."""
    step = next(
        factor * 10.0**power
        for power in range(20)
        for factor in (1, 2, 5)
        if whole / (factor * 10.0**power) <= most
    )
    unit, scale = next((u for u in reversed(UNITS) if step >= u[1]), UNITS[0])
    return [(i * step, f"{i * step / scale:g} {unit}") for i in range(int(whole / step) + 1)]


def _axis(whole: float, cells: int, left: int) -> str:
    line = ""
    for time, label in ticks(whole, max(2, cells // 14)):
        at = round(time / whole * cells)
        if at >= len(line) and at + len(label) < cells + 2:
            line = line.ljust(at) + "|" + label + " "
    return " " * (left + 1) + line.rstrip()


STYLE = """
body { font: 14px system-ui, sans-serif; margin: 24px; color: #1b1f24; background: #fff }
h1 { font-size: 20px } p { max-width: 70em }
text { font-size: 11px; fill: currentColor }
.wait { fill: #e4e7eb } .grid { stroke: #d0d5db } .flow { stroke: #7a828c; stroke-width: .7 }
.end { stroke: currentColor; stroke-width: 2 }
rect.m:hover, line.flow:hover { stroke: #000; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8eb; background: #15181c }
  .wait { fill: #2a2f36 } .grid { stroke: #3a414a }
}
"""


def page(timing: Timing, names: Sequence[str], title: str, facts: Sequence[str]) -> str:
    """Return a diagram as a page of HTML with one SVG; details show under the pointer."""
    whole = _whole(timing)
    height = TOP + len(names) * (2 * LANE + GAP) + 20
    parts = [
        *_grid(whole, height),
        *_processes(timing, names, whole),
        *_messages(timing, names, whole),
    ]
    described = "".join(f"<p>{html.escape(fact)}</p>" for fact in facts)
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>"
        f"<h1>{html.escape(title)}</h1>{described}\n"
        f"<svg viewBox='0 0 {WIDTH + 2 * MARGIN} {height}' role='img' width='100%'>\n"
        + "\n".join(parts)
        + "\n</svg>\n<p>Each process has two lanes: what it sends above, what it receives below; "
        "the colour is that of the round. Grey: it waits or reduces. A line leads from the start "
        "of a message at its sender to its end at its receiver.</p></body></html>\n"
    )


def _x(time: float, whole: float) -> float:
    return MARGIN + time / whole * WIDTH


def _y(process: int, sending: bool = True) -> int:
    return TOP + process * (2 * LANE + GAP) + (0 if sending else LANE)


def _grid(whole: float, height: int) -> list[str]:
    parts = []
    for time, label in ticks(whole, 10):
        x = _x(time, whole)
        parts.append(f"<line class='grid' x1='{x:.1f}' x2='{x:.1f}' y1='20' y2='{height}'/>")
        parts.append(f"<text x='{x:.1f}' y='14' text-anchor='middle'>{label}</text>")
    return parts


def _processes(timing: Timing, names: Sequence[str], whole: float) -> list[str]:
    parts = []
    for i, name in enumerate(names):
        begin, end = _x(timing.arrivals[i], whole), _x(timing.finish[i], whole)
        y = _y(i)
        parts.append(f"<text x='{MARGIN - 8}' y='{y + 12}' text-anchor='end'>{name}</text>")
        parts.append(
            f"<rect class='wait' x='{begin:.1f}' y='{y}' width='{end - begin:.1f}' "
            f"height='{2 * LANE}'><title>rank {name}: arrives at "
            f"{_time(timing.arrivals[i])}, ends at {_time(timing.finish[i])}</title></rect>"
        )
        parts.append(
            f"<line class='end' x1='{end:.1f}' x2='{end:.1f}' y1='{y}' y2='{y + 2 * LANE}'/>"
        )
    return parts


def _messages(timing: Timing, names: Sequence[str], whole: float) -> list[str]:
    parts, lines = [], []
    for m in sorted(timing.messages):
        first, last = _x(m.start, whole), _x(m.end, whole)
        note = (
            f"round {m.round}: {names[m.source]} to {names[m.target]}, {m.bytes} bytes, "
            f"{_time(m.start)} to {_time(m.end)}"
        )
        # Neighbouring rounds get colours far apart, by the golden angle.
        colour = f"hsl({m.round * 137.5 % 360:.0f} 55% 55%)"
        for process, sending in ((m.source, True), (m.target, False)):
            parts.append(
                f"<rect class='m' x='{first:.1f}' y='{_y(process, sending)}' "
                f"width='{max(last - first - 0.5, 0.8):.1f}' height='{LANE - 1}' fill='{colour}'>"
                f"<title>{note}</title></rect>"
            )
        from_y, to_y = _y(m.source) + LANE / 2, _y(m.target, False) + LANE / 2
        lines.append(
            f"<line class='flow' x1='{first:.1f}' y1='{from_y}' x2='{last:.1f}' y2='{to_y}'>"
            f"<title>{note}</title></line>"
        )
    return parts + lines


def _time(time: float) -> str:
    unit, scale = next((u for u in reversed(UNITS) if time >= u[1]), UNITS[0])
    return f"{time / scale:.4g} {unit}"
