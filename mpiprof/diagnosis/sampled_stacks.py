"""Tree of the stacks that `run --where` sampled between collectives, for groups of ranks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.diagnosis.arrival_statistics import SIMILAR_SHARE, ArrivalStatistics, find_late_rank
from mpiprof.diagnosis.finding import names_late_ranks
from mpiprof.diagnosis.sampled_code import is_in_library, list_call_frames, remove_offset
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

NO_SAMPLES = "--where: no samples: "  # of the recorder's note, before the reason
OUTERMOST = ("<module>", "main")  # functions at which a stack is complete
CALLERS_UNKNOWN = "callers not recorded"
INCONCLUSIVE = "at the MPI call: inconclusive"
EXCESS_SHARE = 0.5  # more than this share of an excess is in a function, if it is the cause
Function = tuple[str | None, str]  # file and name
Frame = tuple[str | None, str, int]  # file, name and line; 0 if the line is unknown
Sample = tuple[int, list[Frame], int, int]  # rank, stack, number of samples and their time
ROOT: Function = (None, "all samples")
LIBRARY_START = "__libc_start"  # functions of the C library that call main
MISSING_MAIN: Frame = (None, "main", 0)


@dataclass(frozen=True)
class StackTree:
    """Time of functions by their callers. The first node is the root; parents precede children.

    functions: file and name of each node; the file of the root and of notes is None. lines: the
    line of each node with most time, 0 if unknown. parents: -1 for the root. self_ns and total_ns:
    node x group, means over the ranks of the group. samples: node x group, sums. ranks: number of
    sampled ranks of each group. in_library: true for functions of libraries that many programs use.
    """

    functions: list[Function]
    lines: Int
    parents: Int
    self_ns: Float
    total_ns: Float
    samples: Int
    ranks: Int
    in_library: Bool

    def find_excess(self) -> int:
        """Return the innermost node that has most of the first group's excess over the second.

        It is a function of the program if one is recorded. Returns the root if no function below it
        has half of the excess, or if there is none.
        """
        excess = self.total_ns[:, 0] - self.total_ns[:, 1]
        node = program_node = 0
        for child in range(1, len(excess)):  # parents precede children
            if self.parents[child] == node and excess[child] > EXCESS_SHARE * excess[0] > 0:
                node = child
                if self.functions[child][0] is not None and not self.in_library[child]:
                    program_node = child
        return program_node or node

    def estimate_error(self, node: int) -> Float:
        """Return the standard error of a node's total time for each group, from its samples."""
        error: Float = self.total_ns[node] / np.sqrt(np.maximum(self.samples[node], 1))
        return error


def make_stack_tree(
    trace: Trace, groups: Sequence[Collection[int]], sites: Collection[int] | None = None
) -> StackTree:
    """Return the tree of the samples of groups of ranks before calls at `sites`, or at any site.

    Ranks on which sampling was impossible do not count. Ranks without a sample do: their thread
    slept, or reached its next call too soon.
    """
    failed = set(explain_missing_samples(trace))
    counted = [set(group) - failed for group in groups]
    rows = [
        (key.rank, key.collective_after, key.location, count, ns)
        for key, (count, ns) in trace.tables.presite_samples.items()
        if sites is None or key.collective_after in sites
    ]
    calls = {entered: list_call_frames(trace, [entered]) for _, entered, *_ in rows}
    locations = sorted({location for _, _, location, _, _ in rows})
    described = describe_sites(trace.tables.sites, [locations])[0]
    stacks = {
        location: list(_list_functions(site))
        for location, site in zip(locations, described, strict=True)
    }
    main_file = _find_main(stacks.values())
    samples: list[Sample] = []
    for rank, entered, location, count, ns in rows:
        stack = stacks[location]
        if trace.tables.sites[location][0] in calls[entered]:
            stack = [(None, INCONCLUSIVE, 0)]
        elif stack[0] == MISSING_MAIN:
            stack = [(main_file, "main", 0), *stack[1:]]
        samples.append((rank, stack, count, ns))
    return _sum_stacks(samples, counted, _find_library_functions(trace, locations, described))


def _find_library_functions(
    trace: Trace, locations: Sequence[int], described: Sequence[dict[str, Any]]
) -> set[Function]:
    """Return the functions of the stacks at some sites that are in libraries of many programs."""
    return {
        (frame["file"], _name_function(frame)[0])
        for location, site in zip(locations, described, strict=True)
        for raw, frame in zip(
            trace.tables.sites[location], (site, *site.get("stack", [])), strict=True
        )
        if is_in_library(raw, frame)
    }


def explain_missing_samples(trace: Trace) -> dict[int, str]:
    """Return the reason of each rank on which sampling was impossible."""
    return {
        rank: note.removeprefix(NO_SAMPLES)
        for rank, note in trace.tables.notes
        if note.startswith(NO_SAMPLES)
    }


def list_sites(trace: Trace, callsite: int) -> set[int]:
    """Return the sites of a call site's calls, as `make_stack_tree` takes them."""
    keys = trace.aggregate[1].items()
    return {site for key, number in keys if number == callsite for site in key.sites}


def find_late_ranks(trace: Trace, callsite: int | None) -> list[int]:
    """Return the late ranks of a call site, the latest first; [] if none is late consistently.

    Other ranks may be late there because they waited for a message of a late rank: if findings
    blame some of the ranks, only these are returned. Without a call site, return the ranks of the
    first finding that blames late ranks.
    """
    blamed = [list(one.ranks) for one in trace.findings() if names_late_ranks(one)]
    if callsite is None:
        return blamed[0] if blamed else []
    late = find_late_rank(trace, callsite)
    if late is None:
        return []
    statistics: ArrivalStatistics = trace.arrival_statistics(callsite)
    chosen = statistics.ranks[statistics.ranks["late_ns"] >= SIMILAR_SHARE * late.late_ns]
    ranks = [int(rank) for rank in chosen["rank"]]
    return [rank for rank in ranks if any(rank in of for of in blamed)] or ranks


def _list_functions(site: dict[str, Any]) -> Iterator[Frame]:
    """Yield file, function and line of a stack's frames, outermost first, from main inwards."""
    frames = [
        (frame["file"], *_name_function(frame))
        for frame in (*reversed(site.get("stack", [])), site)
        if not str(frame["file"]).startswith("<frozen ")
    ]
    names = [name for _, name, _ in frames]
    outermost = next((name for name in OUTERMOST if name in names), None)
    if outermost is not None:
        yield from frames[names.index(outermost) :]  # the C library calls main
        return
    starts = [i for i, name in enumerate(names) if name.startswith(LIBRARY_START)]
    # A function without a frame hides its caller, which may be main.
    yield MISSING_MAIN if starts else (None, CALLERS_UNKNOWN, 0)
    yield from frames[starts[-1] + 1 if starts else 0 :]


def _find_main(stacks: Iterable[list[Frame]]) -> str | None:
    """Return the file of the program's main function, or None if it is unknown."""
    files = {file for stack in stacks for file, name, _ in stack if file and name == "main"}
    return files.pop() if len(files) == 1 else None


def _name_function(frame: dict[str, Any]) -> tuple[str, int]:
    name = str(frame["function"] or "?")
    if not frame["line"] and name.startswith("0x"):
        return f"in {Path(str(frame['file'])).name}", 0
    return (name, frame["line"]) if frame["line"] else (remove_offset(name), 0)


def _sum_stacks(
    samples: Iterable[Sample], groups: Sequence[set[int]], library_functions: set[Function]
) -> StackTree:
    """Return the sums of samples by function and callers; groups: of ranks."""
    nodes: dict[tuple[Function, ...], int] = {(): 0}  # by path of functions from the root
    sums: dict[int, Float] = {0: np.zeros((3, len(groups)))}  # own time, total time and samples
    line_ns: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for rank, stack, count, ns in samples:
        member = np.array([rank in group for group in groups])
        if not member.any():
            continue
        path: tuple[Function, ...] = ()
        sums[0][1:] += np.outer((ns, count), member)
        for file, name, line in stack:
            path = (*path, (file, name))
            node = nodes.setdefault(path, len(nodes))
            sums.setdefault(node, np.zeros((3, len(groups))))[1:] += np.outer((ns, count), member)
            if line:
                line_ns[node][line] += ns
        sums[nodes[path]][0] += member * ns
    own_ns, total_ns, counts = np.stack(list(sums.values()), axis=1)
    functions = [path[-1] if path else ROOT for path in nodes]
    lines = [max(line_ns[node], key=line_ns[node].__getitem__, default=0) for node in sums]
    parents = [nodes[path[:-1]] if path else -1 for path in nodes]
    ranks = np.array([len(group) for group in groups], np.int64)
    return StackTree(
        functions,
        np.array(lines, np.int64),
        np.array(parents, np.int64),
        own_ns / np.maximum(ranks, 1),
        total_ns / np.maximum(ranks, 1),
        counts.astype(np.int64),
        ranks,
        np.array([function in library_functions for function in functions]),
    )
