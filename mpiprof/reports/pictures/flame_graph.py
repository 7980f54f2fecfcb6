"""Flame graph of sampled stacks: callers above, width is time, colour the excess of late ranks."""

from __future__ import annotations

import numpy as np

from mpiprof.causes.sampled_code import StackTree
from mpiprof.interface import svg
from mpiprof.interface.format_units import format_share, format_time
from mpiprof.reports.words.callsite_sentences import signed_time
from mpiprof.reports.words.stack_sentences import name_function
from mpiprof.trace.types import Float, Int

MIN_SHARE = 1e-3  # of the width; narrower functions are part of their caller's own time
LABELLED_SHARE = 0.08  # of the width, from which a box has room for a number
SIMILAR_SHARE = 0.05  # of the whole time or excess: a smaller difference has no colour
STEPS = 4  # of a difference's colour
ROW_PX, MAX_ROWS = 22.0, 40
MAX_BOXES = 250  # the widest ones
MIN_BOX_PX, MIN_LABEL_PX = 1.5, 26.0  # widths from which a box and a label are drawn
# Opacity of each step. In both themes, ink is legible on all but the last, surface on the last.
OPACITIES = (0.2, 0.35, 0.5, 1.0)


def draw_flame_graph(tree: StackTree, label: str, *, compared: bool, width: float = 1232) -> str:
    """Return the boxes of the first group; `compared` colours differences from the second one."""
    depth, time_ns = find_depths(tree), tree.total_ns[:, 0]
    wide_enough = [
        node
        for node in choose_nodes(tree).tolist()
        if time_ns[node] * width >= MIN_BOX_PX * time_ns[0] and depth[node] < MAX_ROWS
    ]
    shown = sorted(sorted(wide_enough, key=lambda node: (-time_ns[node], node))[:MAX_BOXES])
    steps = difference_steps(tree) if compared else None
    left = _place_boxes(tree, width)
    parts = []
    for node in shown:
        wide = width * float(time_ns[node]) / max(float(time_ns[0]), 1.0)
        step = None if steps is None else int(steps[node])
        row = int(depth[node])
        parts.append(_draw_box(tree, node, step, left[node], row * ROW_PX, wide, row))
    rows = int(depth[shown].max(initial=0)) + 1
    return svg.make_picture(width, rows * ROW_PX, label, parts)


def choose_nodes(tree: StackTree) -> Int:
    """Return the nodes that are wide enough to be seen, the root first."""
    width = tree.total_ns[:, 0]
    chosen = width >= max(MIN_SHARE * width[0], 1)
    chosen[0] = True
    return np.flatnonzero(chosen)


def find_depths(tree: StackTree) -> Int:
    """Return the number of callers of each node, 0 for the root."""
    depth = np.zeros(len(tree.parents), np.int64)
    for node in range(1, len(depth)):
        depth[node] = depth[tree.parents[node]] + 1
    return depth


def difference_steps(tree: StackTree) -> Int:
    """Return the step of each node's difference: 1 to STEPS for more time, negative for less.

    The largest difference below the root has STEPS. A difference within its error has 0.
    """
    excess = tree.total_ns[:, 0] - tree.total_ns[:, 1]
    whole = max(float(tree.total_ns[0].max()), 1.0)
    largest = max(float(np.abs(excess[1:]).max(initial=0)), 1.0)
    errors: Float = np.array(
        [np.hypot(*tree.estimate_error(node)) for node in range(len(excess))], np.float64
    )
    steps = np.sign(excess) * np.ceil(STEPS * np.abs(excess) / largest)
    steps[(np.abs(excess) < SIMILAR_SHARE * whole) | (np.abs(excess) < errors)] = 0
    steps[0] = 0
    return steps.astype(np.int64)


def label_share(tree: StackTree, node: int, step: int | None) -> str:
    """Return a node's share, or its excess if there is a step; "" for a narrow or grey box."""
    time_ns, whole = tree.total_ns[node], max(float(tree.total_ns[0, 0]), 1.0)
    if time_ns[0] < LABELLED_SHARE * whole or (step == 0 and node):
        return ""
    if step is None:
        return format_share(float(time_ns[0]) / whole)
    return signed_time(float(time_ns[0] - time_ns[1]))


def _place_boxes(tree: StackTree, width: float) -> list[float]:
    """Return the left edge of each node: widest sibling first, the caller's own time last."""
    time_ns = tree.total_ns[:, 0]
    scale = width / max(float(time_ns[0]), 1.0)
    left = [0.0] * len(time_ns)
    free = [0.0] * len(time_ns)  # begin of the next child, from the left edge of its caller
    parents = tree.parents.tolist()
    order = np.lexsort((-time_ns, find_depths(tree))).tolist()
    for node in order[1:]:  # callers precede the functions that they call
        parent = parents[node]
        left[node] = left[parent] + free[parent]
        free[parent] += scale * float(time_ns[node])
    return left


def _draw_box(
    tree: StackTree, node: int, step: int | None, x: float, y: float, width: float, depth: int
) -> str:
    ground, ink = svg.fill("q2" if depth % 2 else "q1"), "ink"
    if step is not None:
        ground = svg.fill("q1")
    if step:
        opacity = OPACITIES[abs(step) - 1]
        ground = svg.fill("late" if step > 0 else "early", opacity)
        ink = "surface" if opacity == 1 else "ink"
    time = format_time(float(tree.total_ns[node, 0]))
    box = svg.make_rectangle(
        x, y, max(width - 1, 0.5), ROW_PX - 1, ground, f"{name_function(tree, node)}: {time}"
    )
    if width < MIN_LABEL_PX:
        return box
    name = tree.functions[node][1]
    text = f"{name}  {label_share(tree, node, step)}".strip()
    limit = int((width - 8) / svg.measure_text("m", 12))
    shown = text if len(text) <= limit else name
    shown = shown if len(shown) <= limit else f"{shown[: max(limit - 1, 1)]}…"
    return box + svg.make_text(x + 5, y + 15, shown, ink, size=12)
