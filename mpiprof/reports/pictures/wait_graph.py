"""Picture of the ranks that wait for each other: boxes of ranks, and arrows to the awaited ranks.

The ranks that a verdict names stand in a column at the right, in the order of their arrows. Groups
of other ranks stand at the left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.interface import svg
from mpiprof.interface.svg import TableRow

LEFT_WIDTH, RIGHT_WIDTH = 310.0, 330.0
RIGHT_X = 590.0  # of the column of named ranks
WIDTH = RIGHT_X + RIGHT_WIDTH + 110
BOX_HEIGHT, GAP = 80.0, 74.0
TITLE_SIZE, TEXT_SIZE = 15, 12
MAX_CHARACTERS = 46


@dataclass(frozen=True)
class WaitNode:
    """A rank or a group of ranks in one call: title and two lines of facts.

    is_named: the verdict names these ranks. is_late: other ranks wait for them.
    """

    title: str
    call: str
    facts: str
    is_named: bool = False
    is_late: bool = False


@dataclass(frozen=True)
class WaitEdge:
    """An arrow from a waiting node to an awaited node (indices), with two short texts."""

    source: int
    target: int
    text: str = ""
    note: str = ""
    in_cycle: bool = False


def list_values(nodes: Sequence[WaitNode], edges: Sequence[WaitEdge]) -> list[TableRow]:
    """Return the data of the picture: a row for each arrow, and for each node without an arrow."""
    rows: list[TableRow] = []
    for i, node in enumerate(nodes):
        own = (node.title, node.call, node.facts)
        waits = [edge for edge in edges if edge.source == i]
        rows += [(*own, nodes[edge.target].title, edge.text, edge.note) for edge in waits]
        rows += [(*own, "", "", "")] * (not waits)
    return [("waits", "call", "facts", "for", "need", "note"), *rows]


def draw_wait_graph(nodes: Sequence[WaitNode], edges: Sequence[WaitEdge], label: str) -> str:
    """Return the picture of a wait-for graph, or "" without nodes."""
    if not nodes:
        return ""
    named = [i for i, node in enumerate(nodes) if node.is_named]
    groups = [i for i, node in enumerate(nodes) if not node.is_named]
    height = max(_column_height(len(named)), _column_height(len(groups)))
    boxes: dict[int, tuple[float, float, float]] = {}
    for column, x, width in ((groups, 1.0, LEFT_WIDTH), (named, RIGHT_X, RIGHT_WIDTH)):
        top = 8 + (height - _column_height(len(column))) / 2
        for row, i in enumerate(column):
            boxes[i] = (x, top + row * (BOX_HEIGHT + GAP), width)
    parts = [_draw_edge(edge, boxes, named) for edge in edges if edge.source != edge.target]
    parts += [_draw_node(node, *boxes[i]) for i, node in enumerate(nodes)]
    if not groups:
        # The column of groups is empty, so the picture begins at the labels of the arrows.
        parts = [f'<g transform="translate({-RIGHT_X + 190:.0f} 0)">', *parts, "</g>"]
    width = WIDTH if groups else WIDTH - RIGHT_X + 190
    return svg.make_picture(width, height + 16, label, parts, scales=False)


def _column_height(count: int) -> float:
    return max(count * (BOX_HEIGHT + GAP) - GAP, 0.0)


def _draw_node(node: WaitNode, x: float, y: float, width: float) -> str:
    edge = svg.stroke("late" if node.is_late else "line2", 1.5 if node.is_late else 1.0)
    ground = svg.fill("late-wash" if node.is_late else "surface")
    edge = edge.removeprefix('fill="none" ')
    box = svg.make_box(x, y, width, BOX_HEIGHT, more=f'rx="8" {ground} {edge}')
    title = "late-text" if node.is_late else "ink"
    limit = MAX_CHARACTERS if width > LEFT_WIDTH else MAX_CHARACTERS * LEFT_WIDTH / RIGHT_WIDTH
    return "".join(
        [
            box,
            svg.make_text(x + 14, y + 25, _cut(node.title, limit * 0.8), title,
                          size=TITLE_SIZE, bold=True),
            svg.make_text(x + 14, y + 46, _cut(node.call, limit), "ink2", size=TEXT_SIZE),
            svg.make_text(x + 14, y + 64, _cut(node.facts, limit), "ink3", size=TEXT_SIZE),
        ]
    )  # fmt: skip


def _draw_edge(
    edge: WaitEdge, boxes: dict[int, tuple[float, float, float]], named: Sequence[int]
) -> str:
    source, target = boxes[edge.source], boxes[edge.target]
    colour = "late" if edge.in_cycle else "ink3"
    if edge.source not in named:
        return _draw_side_arrow(edge, source, target, colour)
    step = named.index(edge.target) - named.index(edge.source)
    if step == 1:
        return _draw_down_arrow(edge, source, target, colour)
    return _draw_return_arrow(edge, source, target, colour, 1 if len(named) == 2 else abs(step))


def _draw_side_arrow(
    edge: WaitEdge,
    source: tuple[float, float, float],
    target: tuple[float, float, float],
    colour: str,
) -> str:
    """Return a curve from a group at the left to a named node, or an arrow to another group."""
    x, y = source[0] + source[2], source[1] + BOX_HEIGHT / 2
    to_x, to_y = target[0] - 9, target[1] + BOX_HEIGHT / 2
    if target[0] == source[0]:  # both are groups
        return _draw_group_arrow(edge, source, target, colour)
    middle = (x + to_x) / 2
    curve = f"M{x:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    # The curve leaves its source horizontally, so the texts stand on the side that it turns from.
    at = y + 20 if to_y < y else y - 26
    return "".join(
        [
            svg.make_path(curve, svg.stroke(colour, 2.5)),
            _make_head(to_x, to_y, "right", colour),
            _make_texts(x + 10, at, edge, "start", colour),
        ]
    )


def _draw_group_arrow(
    edge: WaitEdge,
    source: tuple[float, float, float],
    target: tuple[float, float, float],
    colour: str,
) -> str:
    """Return an arrow to a group above or below, with its texts at the right."""
    is_down = target[1] > source[1]
    x = source[0] + 80.0
    y, to_y = source[1] + BOX_HEIGHT * is_down, target[1] + BOX_HEIGHT * (not is_down)
    to_y += -9 if is_down else 9
    return "".join(
        [
            svg.make_line(x, y, x, to_y, svg.stroke(colour, 2.5)),
            _make_head(x, to_y, "down" if is_down else "up", colour),
            _make_texts(x + 10, (y + to_y) / 2, edge, "start", colour),
        ]
    )


def _draw_down_arrow(
    edge: WaitEdge,
    source: tuple[float, float, float],
    target: tuple[float, float, float],
    colour: str,
) -> str:
    """Return an arrow to the node below, with its texts at the left."""
    x = source[0] + min(80.0, source[2] / 3)
    y, to_y = source[1] + BOX_HEIGHT, target[1] - 9
    return "".join(
        [
            svg.make_line(x, y, x, to_y, svg.stroke(colour, 2.5)),
            _make_head(x, to_y, "down", colour),
            _make_texts(x - 10, (y + to_y) / 2, edge, "end", colour),
        ]
    )


def _draw_return_arrow(
    edge: WaitEdge,
    source: tuple[float, float, float],
    target: tuple[float, float, float],
    colour: str,
    steps: int,
) -> str:
    """Return an arrow to a node above: straight to the next one, else around those between."""
    if steps == 1 and target[1] < source[1]:
        x, y, to_y = source[0] + 190, source[1], target[1] + BOX_HEIGHT + 9
        parts = [
            svg.make_line(x, y, x, to_y, svg.stroke(colour, 2.5)),
            _make_head(x, to_y, "up", colour),
            _make_texts(x + 10, (y + to_y) / 2, edge, "start", colour),
        ]
        return "".join(parts)
    x, y = source[0] + source[2], source[1] + BOX_HEIGHT / 2
    to_y, far = target[1] + BOX_HEIGHT / 2, x + 40
    course = f"M{x:.1f} {y:.1f}H{far:.1f}V{to_y:.1f}H{x + 9:.1f}"
    return "".join(
        [
            svg.make_path(course, svg.stroke(colour, 2.5)),
            _make_head(x + 9, to_y, "left", colour),
            _make_texts(x + 4, (y + to_y) / 2, edge, "start", colour),
        ]
    )


def _make_texts(x: float, y: float, edge: WaitEdge, anchor: str, colour: str) -> str:
    """Return the two texts of an arrow."""
    first = "late-text" if colour == "late" else "ink"
    lines = ((_cut(edge.text, 34), first), (_cut(edge.note, 34), "ink3"))
    return "".join(
        svg.make_text(x, y + 16 * i, text, shade, anchor=anchor, size=TEXT_SIZE)
        for i, (text, shade) in enumerate(lines)
        if text
    )


def _make_head(x: float, y: float, direction: str, colour: str) -> str:
    """Return the head of an arrow whose tip is 9 px beyond (x, y)."""
    corners = {
        "right": "l0 -7l9 7l-9 7z",
        "left": "l0 -7l-9 7l9 7z",
        "down": "l-7 0l7 9l7 -9z",
        "up": "l-7 0l7 -9l7 9z",
    }
    return svg.make_path(f"M{x:.1f} {y:.1f}{corners[direction]}", svg.fill(colour))


def _cut(text: str, limit: float) -> str:
    """Return text that fits into a box."""
    return text if len(text) <= limit else f"{text[: int(limit) - 1]}…"
