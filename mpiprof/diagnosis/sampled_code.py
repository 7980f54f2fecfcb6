"""Code that ranks execute between two calls, from the samples of `run --where`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any

from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace

MIN_SAMPLES = 5  # minimum number of samples for a result


def find_sampled_code(
    trace: Trace, rank: int, before: Collection[int], after: Collection[int]
) -> dict[str, Any] | None:
    """Return the code that a rank mostly executes between calls at given sites, or None.

    before, after: sites of the tables; -1 before stands for the start of the run. Keys of the
    result: file, line and function (the function with most time, and its line with most time), and
    share (of the time of all samples). Returns None without samples, with too few samples, or if
    most samples are inconclusive. A sample at the line of a Python MPI call is inconclusive. The
    GIL is released there, and the sampler may have waited for it while the program ran elsewhere.
    """
    times: Counter[int] = Counter()
    samples = blind_ns = 0
    calls = list_call_frames(trace, after)
    for (of, left, entered, location), (count, ns) in trace.tables.presite_samples.items():
        if of == rank and entered in after and left in before:
            samples += count
            if trace.tables.sites[location][0] in calls:
                blind_ns += ns
            else:
                times[location] += ns
    if samples < MIN_SAMPLES or times.total() <= blind_ns:
        return None
    descriptions = describe_sites(trace.tables.sites, [list(times)])[0]
    return _find_most_frequent(
        list(zip(descriptions, times.values(), strict=True)), times.total() + blind_ns
    )


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
