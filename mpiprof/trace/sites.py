"""Resolves call sites to file, line and function; native ones by addr2line."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from mpiprof.interface import elf
from mpiprof.interface.untrusted_text import clean_text
from mpiprof.trace.function_names import shorten_function
from mpiprof.trace.validation import check_integer, check_object, check_optional, check_text

SourceLocation = tuple[str, int, str]
UNKNOWN: dict[str, Any] = {"file": None, "line": None, "function": None}
Site = Mapping[str, Any]
START = -1  # in place of the number of a call site: the start of the run
NOT_RECORDED = -2  # the same: a call that was discarded or could not be matched


def parse_frame(value: Any) -> dict[str, Any]:
    """Return the known fields of a frame in a table or a selector's log; raises ValueError."""
    frame = check_object(value)
    if frame.get("module") is not None:
        return {
            "module": check_text(frame["module"]),
            "offset": check_integer(frame.get("offset"), 0),
            "symbol": check_optional(frame.get("symbol"), check_text),
        }
    if "module" in frame:  # an address outside all files, such as in code made at run time
        return dict(UNKNOWN)
    return {
        "file": check_text(frame.get("file")),
        "line": check_optional(frame.get("line"), check_integer),
        "function": check_optional(frame.get("function"), check_text),
    }


def describe_sites(
    sites: Sequence[tuple[dict[str, Any], ...]], groups: Sequence[Sequence[int]]
) -> list[list[dict[str, Any]]]:
    """Return a list of {"file", "line", "function"} for each group of site indices (-1 unknown).

    The innermost frame is described. Further recorded frames are in "stack". If other sites have
    the same innermost frame, "caller" is the first frame that distinguishes them, as text. A site
    of a method of mpi4py for objects also has "method" (account/shape_names.py).
    """
    wanted = sorted({i for group in groups for i in group if i >= 0})
    known = dict(zip(wanted, _describe_stacks([sites[i] for i in wanted]), strict=True))
    for i, site in known.items():
        depth = _find_distinct_depth(sites, sites[i]) if "stack" in site else 0
        if depth:
            site["caller"] = format_site(site["stack"][depth - 1])
    return [[known.get(i, UNKNOWN) for i in _drop_unnamed(sites, group)] for group in groups]


def _drop_unnamed(sites: Sequence[tuple[dict[str, Any], ...]], group: Sequence[int]) -> list[int]:
    """Return a group without the sites that another site of the group has with a method.

    A process that takes no part in a rooted call passes no datatype, so its call has no method.
    """
    stacks = [sites[i] for i in group if i >= 0 and "method" in dict(*sites[i][:1])]
    unnamed = [
        ({key: value for key, value in innermost.items() if key != "method"}, *outer)
        for innermost, *outer in stacks
    ]
    return [i for i in group if i < 0 or sites[i] not in unnamed]


def _find_distinct_depth(
    sites: Sequence[tuple[dict[str, Any], ...]], stack: tuple[dict[str, Any], ...]
) -> int:
    """Return the first depth at which other sites with the same innermost frame differ, or 0."""
    same = [other for other in sites if other[:1] == stack[:1]]
    depths = range(1, len(stack))
    return next(
        (at for at in depths if any(other[: at + 1] != stack[: at + 1] for other in same)), 0
    )


def format_site(site: Site) -> str:
    """Return a site as "file:line function, method (called at file:line function)".

    Unknown parts are left out, and the caller if it is not needed to distinguish the site.
    """
    file = site.get("file")
    name = Path(str(file)).name if file else ""
    line = site.get("line")
    where = f"{name}:{line}" if line else name
    function = shorten_function(str(site.get("function") or ""))
    text = " ".join(str(part) for part in (where, function) if part) or "unknown place"
    text = f"{text}, {site['method']}" if site.get("method") else text
    return f"{text} (called at {site['caller']})" if site.get("caller") else text


def locate_label(label: str) -> str:
    """Return the label of a site with "at": "at app.py:12 step", "at exit (mpi4py)"."""
    return label if label.startswith("at exit") else f"at {label}"


def places(sites: Sequence[Site]) -> str:
    """Return the label of one row's sites: the first site, and the number of further sites."""
    if not sites:
        return "unknown place"
    more = f" (+{len(sites) - 1})" if len(sites) > 1 else ""
    return format_site(sites[0]) + more


def matches_pattern(operation: str, sites: Sequence[Site], pattern: str) -> bool:
    """Return whether a pattern occurs in the operation, path, line or function of any site.

    A line number or an address at the pattern's end must be whole: "app.py:1" is not "app.py:12".
    """
    texts = [
        f"{operation} {site.get('file') or ''}:{site.get('line') or ''} {format_site(site)}\n"
        f"{site.get('function') or ''}\n"
        f"{operation} {format_site(site)}"
        for site in sites
    ] or [operation]
    whole = "(?![0-9a-f])" if re.search(r"(:[0-9]+|0x[0-9a-f]+)$", pattern) else ""
    return any(re.search(re.escape(pattern) + whole, text) for text in texts)


def label_site(site: Site) -> str:
    """Return a site on one line: "app.py:12 step", or "?" for an unknown site."""
    return "?" if site["file"] is None else format_site(site)


def _describe_stacks(stacks: list[tuple[dict[str, Any], ...]]) -> list[dict[str, Any]]:
    native: dict[str, set[int]] = {}
    for stack in stacks:
        for frame in stack:
            if "module" in frame:
                native.setdefault(frame["module"], set()).add(frame["offset"])
    resolved = {
        (module, offset): place
        for module, offsets in native.items()
        for offset, place in resolve_native(module, sorted(offsets)).items()
    }
    symbols = {str(frame.get("symbol")) for stack in stacks for frame in stack}
    mangled = frozenset(symbol for symbol in symbols if symbol.startswith("_Z"))
    readable = _demangle(mangled) if mangled else {}
    described = []
    for stack in stacks:
        frames = [_describe_frame(frame, resolved, readable) for frame in stack] or [dict(UNKNOWN)]
        if len(frames) > 1:
            frames[0]["stack"] = frames[1:]
        described.append(frames[0])
    return described


def _describe_frame(
    frame: dict[str, Any], resolved: dict[tuple[str, int], SourceLocation], readable: dict[str, str]
) -> dict[str, Any]:
    file, line, function = frame.get("file"), frame.get("line"), frame.get("function")
    if "module" in frame:
        file, offset, symbol = frame["module"], frame["offset"], frame.get("symbol")
        name = readable.get(str(symbol), symbol) or hex(offset)
        file, line, function = resolved.get((file, offset), (file, None, name))
    described = {"file": file, "line": line, "function": function}
    return {**described, "method": frame["method"]} if "method" in frame else described


def _tool_output(tool: str, words: Sequence[str], input_text: str = "") -> list[str]:
    """Return the output lines of a binutils program, or [] if it is missing or fails."""
    path = shutil.which(tool)
    if path is None:
        return []
    try:
        done = subprocess.run(
            [path, *words],
            input=input_text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return []
    return [clean_text(line) for line in done.stdout.split("\n")[:-1]]


@lru_cache(maxsize=64)
def _demangle(symbols: frozenset[str]) -> dict[str, str]:
    """Return readable C++ names by mangled name, each with the offset behind it."""
    split = {symbol: symbol.partition("+") for symbol in sorted(symbols)}
    lines = _tool_output("c++filt", ["-p", *(name for name, _, _ in split.values())])
    if len(lines) != len(split):
        return {}
    return {
        symbol: f"{line}{plus}{offset}"
        for (symbol, (_, plus, offset)), line in zip(split.items(), lines, strict=True)
    }


def read_type(mangled: str) -> str:
    """Return the readable name of a C++ type, or the mangled one without c++filt."""
    lines = _tool_output("c++filt", ["-t", mangled])
    return lines[0] if len(lines) == 1 else mangled


def group_by_lines(sites: Sequence[tuple[dict[str, Any], ...]]) -> list[int]:
    """For each site, return the first site with frames from the same source lines."""
    # A compiler may make several calls of one line: gfortran makes one per way to pass an array.
    if sum("module" in frame for stack in sites for frame in stack[:1]) < 2:
        return list(range(len(sites)))
    first: dict[Any, int] = {}
    groups = []
    for i, (stack, place) in enumerate(zip(sites, _describe_stacks(list(sites)), strict=True)):
        frames = [place, *place.get("stack", [])]
        native = all("module" in frame for frame in stack)
        known = native and stack and all(frame["line"] is not None for frame in frames)
        key = tuple((frame["file"], frame["line"]) for frame in frames) if known else i
        groups.append(first.setdefault(key, i))
    return groups


# By module, for the offsets resolved so far.
_location_cache: dict[str, dict[int, SourceLocation | None]] = {}


def resolve_native(module: str, offsets: Sequence[int]) -> dict[int, SourceLocation]:
    """Return file, line and function of code in a module; {} if none is known.

    The recorder writes the offset of the last byte of a call, or of an interrupted instruction.
    Code that is inlined from headers of the system belongs to the function that includes it.
    """
    known = _location_cache.setdefault(module, {})
    unknown = [offset for offset in offsets if offset not in known]
    if unknown and Path(module).is_file():
        locations = _run_addr2line(module, unknown)
        known.update({offset: locations.get(offset) for offset in unknown})
    return {offset: place for offset in offsets if (place := known.get(offset)) is not None}


def list_modules(sites: Sequence[tuple[dict[str, Any], ...]]) -> list[str]:
    """Return the paths of the programs and libraries that contain native frames of some sites."""
    return sorted({str(of["module"]) for frames in sites for of in frames if "module" in of})


def _run_addr2line(module: str, offsets: Sequence[int]) -> dict[int, SourceLocation]:
    base = _load_address(module)
    addresses = "\n".join(hex(base + offset) for offset in offsets)
    lines = _tool_output("addr2line", ["-a", "-i", "-f", "-C", "-e", module], addresses + "\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("0x")]
    if len(starts) != len(offsets):
        return {}
    locations: dict[int, SourceLocation] = {}
    for offset, begin, end in zip(offsets, starts, [*starts[1:], len(lines)], strict=True):
        functions, places = lines[begin + 1 : end : 2], lines[begin + 2 : end : 2]
        parsed = [_parse_place(*pair) for pair in zip(functions, places, strict=False)]
        inlined = [place for place in parsed if place is not None]
        if inlined:  # the innermost first
            in_program = (place for place in inlined if not is_system_header(place[0]))
            locations[offset] = next(in_program, inlined[0])
    return locations


def _parse_place(function: str, place: str) -> SourceLocation | None:
    file, _, line = place.split(" (", 1)[0].rpartition(":")
    if file in ("", "??") or not line.isdigit() or int(line) == 0:
        return None
    return file, int(line), function


def is_system_header(file: str) -> bool:
    """Return whether a source file is a header of the system or of the C++ library."""
    return file.startswith("/usr/include/") or "/include/c++/" in file


def is_program(module: str) -> bool:
    """Return whether a file is a program rather than a library: it names its loader."""
    with contextlib.suppress(elf.NotElfError):
        return elf.read(Path(module)).interpreter is not None
    return False


def _load_address(module: str) -> int:
    """Return the address from which offsets count; 0 for position-independent programs."""
    with contextlib.suppress(elf.NotElfError):
        return elf.read(Path(module)).link_address & ~0xFFF
    return 0
