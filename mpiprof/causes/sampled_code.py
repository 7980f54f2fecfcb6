"""Samples of `run --where`: the code that ranks execute between two calls, and trees of stacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.causes.arrival_statistics import SIMILAR_SHARE, ArrivalStatistics, find_late_rank
from mpiprof.causes.finding import names_late_ranks
from mpiprof.interface import elf
from mpiprof.trace.sites import describe_sites, is_system_header
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

CodeFunction = tuple[str | None, str | None]  # file and name
SYSTEM_FOLDERS = tuple(f"{folder}/" for folder in elf.DEFAULT_FOLDERS)
# Beginnings of the names of libraries that many programs use, wherever they are installed.
RUNTIME_LIBRARIES = (
    *("linux-vdso", "ld-linux", "ld-musl", "libc.", "libc-", "libm.", "libm-", "libmvec", "librt."),
    *("libdl.", "libpthread", "libstdc++", "libc++", "libgcc", "libgomp", "libomp", "libiomp"),
    *("libgfortran", "libquadmath", "libatomic", "libflang", "libifcore", "libifport", "libimf"),
    *("libsvml", "libirc", "libintlc", "libnv", "libpgmath", "libasan", "libubsan", "libtsan"),
    *("libmkl", "libblas", "libcblas", "liblapack", "libopenblas", "libblis", "libflame"),
    *("libatlas", "libarmpl", "libamath", "libamdlibm", "libsci_", "libfftw", "libscalapack"),
    *("libmpi", "libpmpi", "libopen-pal", "libopen-rte", "libpmix", "libprrte", "libfabric"),
    *("libucp", "libucs", "libuct", "libucm", "libjemalloc", "libtcmalloc", "libtbb"),
)
MIN_SAMPLES = 5  # minimum number of samples for a result
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


def find_sampled_code(
    trace: Trace, rank: int, before: Collection[int], after: Collection[int]
) -> dict[str, Any] | None:
    """Return the code that a rank executes longer than others between two calls, or None.

    before, after: sites of the tables; -1 before stands for the start of the run. Without samples
    between these calls, those between collectives at these sites count. Keys of the result: file,
    line and function (the function whose time is longest above the median of the other ranks, and
    its line with most time), and share (its time, of the time of all samples of the rank). Time in
    libraries that many programs use is that of their caller. Returns None without samples, with too
    few samples, or if most samples are inconclusive. A sample at the line of a Python MPI call is
    inconclusive. The GIL is released there, and the sampler may have waited for it while the
    program ran elsewhere.
    """
    samples = trace.tables.presite_samples.items()
    chosen = [row for row in samples if row[0].before in before and row[0].after in after]
    if not any(key.rank == rank for key, _ in chosen):
        chosen = [
            row
            for row in samples
            if row[0].collective_before in before and row[0].collective_after in after
        ]
    calls = list_call_frames(trace, after)
    rank_samples = [(key, sample) for key, sample in chosen if key.rank == rank]
    blind_ns = sum(
        ns for key, (_, ns) in rank_samples if trace.tables.sites[key.location][0] in calls
    )
    whole_ns = sum(ns for _, (_, ns) in rank_samples)
    if sum(count for _, (count, _) in rank_samples) < MIN_SAMPLES or whole_ns <= 2 * blind_ns:
        return None
    frames = describe_own_frames(trace, {key.location for key, _ in chosen})
    functions: defaultdict[CodeFunction, Counter[int]] = defaultdict(Counter)  # ns by rank
    lines: defaultdict[CodeFunction, Counter[int | None]] = defaultdict(Counter)
    for key, (_, ns) in chosen:
        if trace.tables.sites[key.location][0] in calls:
            continue
        function, line = frames[key.location]
        functions[function][key.rank] += ns
        if key.rank == rank:
            lines[function][line] += ns
    other_ranks = [other_rank for other_rank in range(trace.ranks) if other_rank != rank]
    excess = {
        function: functions[function][rank]
        - float(np.median([functions[function][other_rank] for other_rank in other_ranks] or [0]))
        for function in lines
    }
    file, name = longest = max(excess, key=lambda function: excess[function])
    line = lines[longest].most_common(1)[0][0]
    share = functions[longest][rank] / whole_ns
    return {"file": file, "line": line, "function": name, "share": share}


def describe_own_frames(
    trace: Trace, locations: Collection[int]
) -> dict[int, tuple[CodeFunction, int | None]]:
    """Return function and line of the program's innermost frame at each sampled location."""
    ordered = sorted(locations)
    frames_by_location = {}
    for location, described in zip(
        ordered, describe_sites(trace.tables.sites, [ordered])[0], strict=True
    ):
        frames = [described, *described.get("stack", [])]
        in_library = map(is_in_library, trace.tables.sites[location], frames)
        # Without a frame of the program, the innermost one counts.
        frame = next(
            (f for f, skipped in zip(frames, in_library, strict=True) if not skipped), described
        )
        function, line = frame["function"], frame["line"]
        name = remove_offset(function) if function and line is None else function
        frames_by_location[location] = (frame["file"], name), line
    return frames_by_location


def remove_offset(function: str) -> str:
    """Return the name of a function without a line, whose text ends in an offset."""
    return function.partition("+0x")[0]


def is_in_library(frame: dict[str, Any], described: dict[str, Any]) -> bool:
    """Return whether a frame of the tables is code of the system or of the run time.

    Functions that a compiler makes from headers of the C++ library are such code, too.
    """
    module = str(frame.get("module", ""))
    return (
        module.startswith(SYSTEM_FOLDERS)
        or Path(module).name.startswith(RUNTIME_LIBRARIES)
        or is_system_header(str(described["file"]))
    )


def list_call_frames(trace: Trace, sites: Collection[int]) -> list[dict[str, Any]]:
    """Return the innermost frames of call sites in Python, at which samples are inconclusive."""
    frames = [trace.tables.sites[site][0] for site in sites if site >= 0]
    return [frame for frame in frames if "module" not in frame]


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
    functions: set[Function] = set()
    for location, site in zip(locations, described, strict=True):
        frames = [site, *site.get("stack", [])]
        for raw, frame in zip(trace.tables.sites[location], frames, strict=True):
            if is_in_library(raw, frame):
                functions.add((frame["file"], _name_function(frame)[0]))
    return functions


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
    blamed = [list(finding.ranks) for finding in trace.findings() if names_late_ranks(finding)]
    if callsite is None:
        return blamed[0] if blamed else []
    late = find_late_rank(trace, callsite)
    if late is None:
        return []
    statistics: ArrivalStatistics = trace.arrival_statistics(callsite)
    chosen = statistics.ranks[statistics.ranks["late_ns"] >= SIMILAR_SHARE * late.late_ns]
    ranks = [int(rank) for rank in chosen["rank"]]
    return [rank for rank in ranks if any(rank in blamed_ranks for blamed_ranks in blamed)] or ranks


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
