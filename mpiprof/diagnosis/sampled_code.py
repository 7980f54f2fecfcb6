"""Code that ranks execute between two calls, from the samples of `run --where`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof import elf
from mpiprof.trace.sites import describe_sites, is_system_header
from mpiprof.trace.trace import Trace

Function = tuple[str | None, str | None]  # file and name
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
    own = [(key, of) for key, of in chosen if key.rank == rank]
    blind_ns = sum(ns for key, (_, ns) in own if trace.tables.sites[key.location][0] in calls)
    whole_ns = sum(ns for _, (_, ns) in own)
    if sum(count for _, (count, _) in own) < MIN_SAMPLES or whole_ns <= 2 * blind_ns:
        return None
    frames = describe_own_frames(trace, {key.location for key, _ in chosen})
    functions: defaultdict[Function, Counter[int]] = defaultdict(Counter)  # ns by rank
    lines: defaultdict[Function, Counter[int | None]] = defaultdict(Counter)
    for key, (_, ns) in chosen:
        if trace.tables.sites[key.location][0] in calls:
            continue
        function, line = frames[key.location]
        functions[function][key.rank] += ns
        if key.rank == rank:
            lines[function][line] += ns
    others = [other for other in range(trace.ranks) if other != rank]
    excess = {
        function: functions[function][rank]
        - float(np.median([functions[function][other] for other in others] or [0]))
        for function in lines
    }
    file, name = longest = max(excess, key=lambda function: excess[function])
    line = lines[longest].most_common(1)[0][0]
    share = functions[longest][rank] / whole_ns
    return {"file": file, "line": line, "function": name, "share": share}


def describe_own_frames(
    trace: Trace, locations: Collection[int]
) -> dict[int, tuple[Function, int | None]]:
    """Return function and line of the program's innermost frame at each sampled location."""
    ordered = sorted(locations)
    found = {}
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
        found[location] = (frame["file"], name), line
    return found


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
