"""Sentences on sampled stacks: the function that makes ranks late, and its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from mpiprof.causes.sampled_code import CALLERS_UNKNOWN, StackTree
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ranks,
    format_runs,
    format_time,
)

FEW_SAMPLES = 30  # below this number, times of functions have errors of a fifth and more
Phrase = tuple[str, str]  # text and style
TITLE = "Functions between collectives"
HOW_TO_READ_ONE = (
    "A box is a function below its caller; its width is the mean time per rank with all that it "
    "calls."
)
HOW_TO_READ = (
    f"{HOW_TO_READ_ONE} Follow the orange boxes down: there the late ranks spend more time than "
    "the mean of the others (blue: less, grey: alike)."
)


def excess_phrases(tree: StackTree, late: list[int]) -> list[Phrase]:
    """Return the sentence about the function in which late ranks spend more time than others.

    tree: of two groups, the late ranks and the other ranks.
    """
    who = (capitalise(format_ranks(late)), "late")
    verb = "spend" if len(late) > 1 else "spends"
    others = f"the mean of {format_count(int(tree.ranks[1]))} other ranks"
    node = tree.find_excess()
    if not node:
        return [who, (f" {verb} no more time than {others} in any single function.", "")]
    excess_ns = float(tree.total_ns[node, 0] - tree.total_ns[node, 1])
    error_ns = math.hypot(*tree.estimate_error(node).tolist())
    caller = int(tree.parents[node])
    called = f", called by {tree.functions[caller][1]}" if tree.functions[caller][0] else ""
    return [
        who,
        (f" {verb} ", ""),
        (f"{format_time(excess_ns)} ± {format_time(error_ns)} more", "bold"),
        (f" than {others} in ", ""),
        (name_function(tree, node), "bold"),
        (f"{called}.", ""),
    ]


def name_function(tree: StackTree, node: int) -> str:
    """Return a function with the file and line of most of its time: "solve (md.py:9)"."""
    file, name = tree.functions[node]
    line = int(tree.lines[node])
    where = f"{Path(file).name}{f':{line}' * (line > 0)}" if file else ""
    return f"{name} ({where})" if where else name


def name_groups(groups: Sequence[list[int]]) -> list[str]:
    """Return the names of the ranks of a tree: of the first group, and the number of others."""
    first, *others = groups
    name = f"rank{'s' * (len(first) > 1)} {format_runs(first, 3)}"
    return [name, *(f"{format_count(len(other))} other ranks" for other in others)]


def sample_note(tree: StackTree, names: list[str]) -> str:
    """Return the number of samples of each group, and a warning if the first group has few."""
    counts = [int(n) for n in tree.samples[0]]
    parts = [f"{format_count(n)} of {name}" for n, name in zip(counts, names, strict=True)]
    note = f"Samples: {', '.join(parts)}."
    if counts[0] < FEW_SAMPLES:
        note += (
            " These are few, so times are rough. Run longer, or sample more often with"
            " MPIPROF_WHERE_PERIOD (in µs)."
        )
    return note


def caller_note(tree: StackTree) -> str:
    """Return how to record callers if most stacks lack them, or ""."""
    unknown = [node for node, name in enumerate(tree.functions) if name[1] == CALLERS_UNKNOWN]
    if 2 * tree.samples[unknown].sum() <= tree.samples[0].sum():
        return ""
    return " Callers are not recorded: compile the program with -fno-omit-frame-pointer."
