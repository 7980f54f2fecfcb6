"""Code that ranks execute between two calls, from the samples of `run --where`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from mpiprof import elf
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace

SYSTEM_FOLDERS = tuple(f"{folder}/" for folder in elf.DEFAULT_FOLDERS)
MIN_SAMPLES = 5  # minimum number of samples for a result


def find_sampled_code(
    trace: Trace, rank: int, before: Collection[int], after: Collection[int]
) -> dict[str, Any] | None:
    """Return the code that a rank mostly executes between calls at given sites, or None.

    before, after: sites of the tables; -1 before stands for the start of the run. Without samples
    between these calls, those between collectives at these sites count. Keys of the result: file,
    line and function (the function with most time, and its line with most time), and share (of the
    time of all samples). Time in the system's libraries is that of their caller. Returns None
    without samples, with too few samples, or if most samples are inconclusive. A sample at the line
    of a Python MPI call is inconclusive. The GIL is released there, and the sampler may have waited
    for it while the program ran elsewhere.
    """
    times: Counter[int] = Counter()
    samples = blind_ns = 0
    calls = list_call_frames(trace, after)
    rows = [(key, of) for key, of in trace.tables.presite_samples.items() if key.rank == rank]
    chosen = [row for row in rows if row[0].before in before and row[0].after in after]
    for key, (count, ns) in chosen or [
        row
        for row in rows
        if row[0].collective_before in before and row[0].collective_after in after
    ]:
        samples += count
        if trace.tables.sites[key.location][0] in calls:
            blind_ns += ns
        else:
            times[key.location] += ns
    if samples < MIN_SAMPLES or times.total() <= blind_ns:
        return None
    descriptions = describe_sites(trace.tables.sites, [list(times)])[0]
    frames = [
        [described, *described.get("stack", [])][_find_own_depth(trace.tables.sites[location])]
        for location, described in zip(times, descriptions, strict=True)
    ]
    return _find_most_frequent(
        list(zip(frames, times.values(), strict=True)), times.total() + blind_ns
    )


def _find_own_depth(frames: Sequence[dict[str, Any]]) -> int:
    """Return the depth of the innermost frame outside of the system's libraries, else 0."""
    for depth, frame in enumerate(frames):
        if not str(frame.get("module", "")).startswith(SYSTEM_FOLDERS):
            return depth
    return 0


def list_call_frames(trace: Trace, sites: Collection[int]) -> list[dict[str, Any]]:
    """Return the innermost frames of call sites in Python, at which samples are inconclusive."""
    frames = [trace.tables.sites[site][0] for site in sites if site >= 0]
    return [frame for frame in frames if "module" not in frame]


def _find_most_frequent(locations: list[tuple[dict[str, Any], int]], whole: int) -> dict[str, Any]:
    functions: Counter[tuple[str | None, str | None]] = Counter()
    lines: defaultdict[Any, Counter[int | None]] = defaultdict(Counter)
    for location, ns in locations:
        function = location["function"]
        # The text of a function without a line ends in an offset, which is removed.
        name = function.partition("+0x")[0] if function and location["line"] is None else function
        functions[location["file"], name] += ns
        lines[location["file"], name][location["line"]] += ns
    (file, name), ns = functions.most_common(1)[0]
    line = lines[file, name].most_common(1)[0][0]
    return {"file": file, "line": line, "function": name, "share": ns / whole}
