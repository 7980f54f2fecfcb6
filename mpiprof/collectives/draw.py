"""Space-time diagrams of a simulated schedule, as text and as a self-contained HTML page.

Processes are rows and time goes to the right. Each process has two lanes: its sends above its
receives.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.collectives.simulate import Timing
from mpiprof.interface import svg, tokens
from mpiprof.interface.ascii_fallback import REPLACEMENTS, replace_unwritable
from mpiprof.interface.format_units import unit_of

SENDS, RECEIVES, CONTINUES, WAITS, ENDS = "→", "←", "─", "·", "┃"
LEGEND = (
    f"{SENDS}3 sends to 3, {RECEIVES}5 receives from 5, {WAITS} waits or reduces, "
    f"blank before its arrival, {ENDS} has ended"
)
# Each mark is one character.
ASCII_MARKS = {**REPLACEMENTS, SENDS: ">", RECEIVES: "<", CONTINUES: "-", WAITS: "."}

# Sizes in the page are in pixels. With few processes, lanes are wide and contain names.
WIDTH, MARGIN, TOP = 1100, 60, 30
DRAWN_HIGH, NARROW, WIDE = 560, 9, 20
MIN_NAMED_HEIGHT, LETTER = 14, 7  # minimum height of a lane with names, and width of a letter
COLOURS = tokens.CYCLE[:6]  # neighbouring rounds have distinct colours


def name_processes(size: int, remote_size: int = 0) -> list[str]:
    """Return the processes' names: their ranks, with prefix r in a remote group."""
    return [str(i) for i in range(size)] + [f"r{i}" for i in range(remote_size)]


def draw_text(timing: Timing, names: Sequence[str], width: int) -> str:
    """Return a diagram with `width` characters per line."""
    margin = max(4, *(len(name) for name in names)) + 1
    cells = width - margin - 2
    total_ns = _total_time(timing)

    def place(time: float) -> int:
        return min(cells, round(time / total_ns * cells))

    lines = []
    for i, name in enumerate(names):
        begin, end = place(timing.arrivals[i]), place(timing.finish[i])
        for sending in (True, False):
            row = [" "] * begin + [WAITS] * (end - begin) + [ENDS] + [" "] * (cells - end)
            lane_messages = [m for m in timing.messages if (m.source if sending else m.target) == i]
            for m in sorted(lane_messages, key=lambda m: m.start):
                first, last = place(m.start), place(m.end)
                peer = names[m.target if sending else m.source]
                label = (SENDS if sending else RECEIVES) + peer
                row[first:last] = label.ljust(last - first, CONTINUES)[: last - first]
            lines.append(f"{name if sending else '':>{margin}} " + "".join(row).rstrip())
    lines += [_draw_axis(total_ns, cells, margin), LEGEND]
    return replace_unwritable("\n".join(lines), ASCII_MARKS)


def _total_time(timing: Timing) -> float:
    return max(float(timing.finish.max()), 1.0)


def axis_ticks(total_ns: float, max_count: int) -> list[tuple[float, str]]:
    """Return the axis ticks within a span, as times and labels."""
    times = svg.choose_ticks(0, total_ns, max_count)
    unit, scale = unit_of(times[1])
    return [(time, f"{time / scale:g} {unit}") for time in times]


def _draw_axis(total_ns: float, cells: int, margin: int) -> str:
    line = ""
    for time, label in axis_ticks(total_ns, max(2, cells // 14)):
        at = round(time / total_ns * cells)
        if at >= len(line) and at + len(label) < cells + 2:
            line = line.ljust(at) + "|" + label + " "
    return " " * (margin + 1) + line.rstrip()


STYLE = """
body { font: 14px system-ui, sans-serif; margin: 24px; color: #1b1f24; background: #fff }
h1 { font-size: 20px } p { max-width: 70em }
text { font-size: 11px; fill: currentColor } text.peer { fill: #fff; pointer-events: none }
text.dark { fill: #1b1f24; pointer-events: none }
.wait { fill: #e4e7eb } .grid { stroke: #d0d5db } .flow { stroke: #4a525c; stroke-width: .8 }
.end { stroke: currentColor; stroke-width: 2 } .head { fill: #4a525c }
rect.m:hover, line.flow:hover { stroke: currentColor; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8eb; background: #15181c }
  .wait { fill: #2a2f36 } .grid { stroke: #3a414a } .flow { stroke: #aab2bc }
  .head { fill: #aab2bc }
}
"""
HEAD = (
    "<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
    "orient='auto'><path class='head' d='M0 1L8 4L0 7z'/></marker></defs>"
)


@dataclass(frozen=True)
class _Geometry:
    """Coordinates: the whole time, the height of a lane, and the gap between processes."""

    whole: float
    lane: int
    gap: int

    def x(self, time: float) -> float:
        """Return the x coordinate of a time."""
        return MARGIN + time / self.whole * WIDTH

    def y(self, process: int, *, sending: bool = True) -> int:
        """Return the top of a process's lane."""
        return TOP + process * (2 * self.lane + self.gap) + (0 if sending else self.lane)


def draw_page(timing: Timing, names: Sequence[str], title: str, facts: Sequence[str]) -> str:
    """Return a diagram as an HTML page with one SVG; details appear under the pointer."""
    lane = min(max(DRAWN_HIGH // (3 * len(names)), NARROW), WIDE)
    paper = _Geometry(_total_time(timing), lane, max(6, lane))
    height = paper.y(len(names)) + 10
    rows = [*_draw_processes(timing, names, paper), *_draw_messages(timing, names, paper)]
    parts = [HEAD, *_draw_grid(paper, height), *rows]
    described = "".join(f"<p>{html.escape(fact)}</p>" for fact in facts)
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>"
        f"<h1>{html.escape(title)}</h1>{described}\n"
        f"<svg viewBox='0 0 {WIDTH + 2 * MARGIN} {height}' role='img' width='100%'>\n"
        + "\n".join(parts)
        + "\n</svg>\n<p>Each process has two lanes: what it sends above, what it receives below, "
        "with the other's rank; the colour is that of the round. Grey: it waits or reduces. An "
        "arrow leads from the start of a message at its sender to its end at its receiver.</p>"
        "</body></html>\n"
    )


def _draw_grid(paper: _Geometry, height: int) -> list[str]:
    parts = []
    for time, label in axis_ticks(paper.whole, 10):
        x = paper.x(time)
        parts.append(svg.make_line(x, 20, x, height, 'class="grid"'))
        parts.append(svg.make_label(x, 14, label, "middle"))
    return parts


def _draw_processes(timing: Timing, names: Sequence[str], paper: _Geometry) -> list[str]:
    parts = []
    for i, name in enumerate(names):
        begin, end = paper.x(timing.arrivals[i]), paper.x(timing.finish[i])
        y, high = paper.y(i), 2 * paper.lane
        middle = y + paper.lane + 4
        arrives, ends = _format_time(timing.arrivals[i]), _format_time(timing.finish[i])
        note = f"rank {name}: arrives at {arrives}, ends at {ends}"
        parts.append(svg.make_label(MARGIN - 8, middle, name, "end"))
        parts.append(svg.make_box(begin, y, end - begin, high, note=note, more='class="wait"'))
        parts.append(svg.make_line(end, y, end, y + high, 'class="end"'))
    return parts


def _draw_messages(timing: Timing, names: Sequence[str], paper: _Geometry) -> list[str]:
    parts, lines = [], []
    for m in sorted(timing.messages):
        first, last = paper.x(m.start), paper.x(m.end)
        note = f"round {m.round}: {names[m.source]} to {names[m.target]}, {m.bytes} bytes, "
        note += f"{_format_time(m.start)} to {_format_time(m.end)}"
        for process, sending in ((m.source, True), (m.target, False)):
            y = paper.y(process, sending=sending)
            colour, wide = COLOURS[m.round % len(COLOURS)], max(last - first - 1, 0.8)
            parts.append(svg.make_box(first, y, wide, paper.lane - 1, colour, note, 'class="m"'))
            name = (SENDS if sending else RECEIVES) + names[m.target if sending else m.source]
            if paper.lane >= MIN_NAMED_HEIGHT and last - first > LETTER * (len(name) + 1):
                dark = "dark" if m.round % len(COLOURS) in (1, 3, 4) else "peer"
                middle = y + paper.lane / 2 + 3.5
                parts.append(svg.make_label(first + 5, middle, name, more=f'class="{dark}"'))
        # Arrows connect the facing edges of two processes, so that they cross no lane of these.
        down = m.target > m.source
        from_y = paper.y(m.source) + (2 * paper.lane if down else 0)
        to_y = paper.y(m.target) + (0 if down else 2 * paper.lane)
        arrow = 'class="flow" marker-end="url(#head)"'
        lines.append(svg.make_line(first, from_y, last, to_y, arrow, note))
    return parts + lines


def _format_time(time: float) -> str:
    unit, scale = unit_of(time)
    return f"{time / scale:.4g} {unit}"
