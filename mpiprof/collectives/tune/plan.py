"""Plans: algorithms for operations and call sites, as users write them.

The launcher reads and checks a plan before a program starts, so this module does not import numpy.
The recorder receives a text in its environment (core/selection/rules/rules.c).

    operation=algorithm[:parameter=value...]    all calls of an operation
    app.py:88=algorithm[:parameter=value...]    a call site, as the communicator's rank 0 sees it;
                                                %2c, %3d and %25 are a comma, = and % in its file
    PLAN.json                                   a list of entries, see `make_entry_rules`
    auto                                        online selection, starting with these rules if any
    robust                                      the routine of Faraj et al. for all-to-all, alone
    random:SEED                                 for tests: a valid algorithm at every call;
                                                random:SEED:own: the library's algorithms too

An invalid entry of a file is reported and dropped, and the rest is used. On the command line it is
an error, and also in files if they are read strictly.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mpiprof.collectives.tune.rules import (
    NATIVE,
    Provenance,
    Rule,
    check_operation,
    check_site,
    format_rule,
    locate_errors,
    make_rule,
    parse_bytes,
)
from mpiprof.errors import UsageError
from mpiprof.facts.operations import AUTO, OPERATIONS, ROBUST, SELECTORS
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.interface.shell_hints import ESCAPES
from mpiprof.interface.untrusted_files import read_named_file
from mpiprof.interface.untrusted_text import parse_json

SELECTION_KEYS = ("operation", "size", "bytes", "call_sites")
ENTRY_KEYS = (*SELECTION_KEYS, "algorithm", "parameters", "why", "measured")
PROVENANCE_KEYS = ("how", "mpi", "hosts", "date")
# A call site and its choice; the last line number before a "=" ends the call site.
CALL_SITE = re.compile(r"(.+:[1-9][0-9]*)=([A-Za-z_].*)", re.DOTALL)
MAX_TEXT = 100_000  # the system's limit for one variable is 131072


@dataclass(frozen=True)
class Plan:
    """The rules of a specification in order, or the seed of a random choice."""

    rules: tuple[Rule, ...] = ()
    seed: int | None = None
    auto: bool = False  # online selection continues from these rules
    remarks: tuple[str, ...] = ()  # dropped entries of files with reasons, one line each
    with_native: bool = False  # a random choice includes the library's algorithms
    robust: bool = False  # the routine of Faraj et al. selects the algorithms of all-to-all

    @property
    def files(self) -> tuple[str, ...]:
        """Plan files that rules come from."""
        return tuple(dict.fromkeys(rule.file for rule in self.rules if rule.file))

    @property
    def sites(self) -> tuple[str, ...]:
        """Call sites that the rules name."""
        return tuple(dict.fromkeys(rule.site for rule in self.rules if rule.site is not None))

    def format_for_recorder(self) -> str:
        """Return the recorder's form of the plan; raises UsageError if it is too long."""
        if self.seed is not None:
            return f"random {self.seed}" + (" own" if self.with_native else "")
        if self.robust:
            return ROBUST
        text = "".join(format_rule(rule) for rule in self.rules)
        if len(os.fsencode(text)) > MAX_TEXT:
            fact = f"{len(self.rules)} rules are too many for the environment of a process"
            raise UsageError(f"--switch: {fact}: leave out some")
        return text


def read(specification: str, *, strict: bool = True) -> Plan:
    """Return the plan of --switch; raises UsageError for the first mistake in it."""
    rules: list[Rule] = []
    # If not strict, an invalid entry of a file becomes a remark.
    remarks: list[str] | None = None if strict else []
    auto = False
    for item in _split_items(specification):
        if item == ROBUST or item.startswith("random:"):
            if item != specification:
                raise UsageError(f"--switch {item}: cannot be combined with other items")
            if item == ROBUST:
                return Plan(robust=True)
            seed = _parse_seed(item.removesuffix(":own"))
            return Plan(seed=seed, with_native=item.endswith(":own"))
        if item == AUTO:
            auto = True
        elif "=" in item and not _is_file(item):
            with locate_errors(f"--switch {item}"):
                rules.append(_parse_item(item))
        else:
            rules += read_file_rules(Path(item), remarks)
    return Plan(tuple(rules), None, auto, tuple(remarks or ()))


@contextmanager
def collect_remarks(remarks: list[str] | None) -> Iterator[None]:
    """Convert a UsageError to a remark on the dropped entry, if there is a list for remarks."""
    try:
        yield
    except UsageError as error:
        if remarks is None:
            raise
        remarks.append(f"{error} (left out)")


def make_absolute(specification: str) -> str:
    """Return a specification with absolute paths of its files, for a process in another folder."""
    return ",".join(
        item
        if not _is_file(item) and ("=" in item or item in SELECTORS or item.startswith("random:"))
        else str(Path(item).absolute())
        for item in _split_items(specification)
    )


def _is_file(item: str) -> bool:
    return item not in SELECTORS and os.path.isfile(item)  # noqa: PTH113 - Path's fails on too long a name


def _split_items(specification: str) -> list[str]:
    if _is_file(specification):
        return [specification]  # a file's name may have commas
    items = _join_parts([item.strip() for item in specification.split(",")])
    if not all(items):
        examples = "such as alltoall=ring, app.py:88=ring, PLAN.json, or auto"
        raise UsageError(f"--switch {specification!r}: empty: pass operation=algorithm, {examples}")
    return items


def _join_parts(parts: list[str]) -> list[str]:
    """Return the items, joining parts that belong to one file name or call site with commas."""
    items: list[str] = []
    while parts:
        ends = () if _is_item(parts[0]) else range(2, len(parts) + 1)
        joined = (",".join(parts[:end]) for end in ends)
        item = next((s for s in joined if _is_file(s) or CALL_SITE.fullmatch(s)), parts[0])
        items.append(item)
        del parts[: 1 + item.count(",")]
    return items


def _is_item(part: str) -> bool:
    """Return True if a part between commas is an item by itself, or a plan file."""
    if part in ("", *SELECTORS) or part.startswith("random:") or part.endswith(".json"):
        return True
    target, equals, _ = part.partition("=")
    names_operation = bool(equals) and target.isidentifier()
    return names_operation or CALL_SITE.fullmatch(part) is not None or _is_file(part)


def _parse_seed(item: str) -> int:
    text = item.removeprefix("random:")
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 64):
        raise UsageError(f"--switch {item}: {text!r} is not a seed, a number from 0 to 2^64 - 1")
    return int(text)


def _parse_item(item: str) -> Rule:
    site = CALL_SITE.fullmatch(item)
    target, how = (site[1], site[2]) if site else item.split("=", 1)
    algorithm, *words = how.split(":")
    if algorithm == NATIVE and words and "=" not in words[0]:
        algorithm = f"{NATIVE}:{words.pop(0)}"
    parameters: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{word!r} is not parameter=value")
        if name in parameters:
            raise UsageError(f"{name} appears twice")
        parameters[name] = value
    if ":" in target:
        return make_rule(None, check_site(_unescape_site(target)), algorithm, parameters)
    return make_rule(check_operation(target), None, algorithm, parameters)


def _unescape_site(site: str) -> str:
    """Return a call site without the escapes of interface.shell_hints.switch_value."""
    for character, escaped in reversed(ESCAPES.items()):
        site = re.sub(re.escape(escaped), character, site, flags=re.IGNORECASE)
    return site


# ---- plan files


def read_file_rules(path: Path, remarks: list[str] | None) -> list[Rule]:
    """Return the rules of a plan file; an invalid entry becomes a remark, or raises UsageError."""
    # A file that is missing or not a plan always raises UsageError.
    try:
        content = read_named_file(path)
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        hint = "" if path.suffix == ".json" else ", nor operation=algorithm"
        raise UsageError(f"--switch {path}: {reason}{hint} (seen from {Path.cwd()})") from None
    rules: list[Rule] = []
    for number, entry in enumerate(_parse_entries(path, content), 1):
        with collect_remarks(remarks):
            entry_rules = make_entry_rules(f"{path}, entry {number}", entry)
            rules += [replace(rule, file=str(path), entry=number) for rule in entry_rules]
    return rules


def _parse_entries(path: Path, content: bytes) -> list[Any]:
    try:
        data = parse_json(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a text file, so not a plan") from None
    except json.JSONDecodeError as error:
        where = f"{path}, line {error.lineno}, column {error.colno}"
        raise UsageError(f"{where}: invalid JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:  # nested too deep, or a number of too many digits
        raise UsageError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(data, list):
        raise UsageError(f"{path}: a plan is a list of entries, this is {_type_name(data)}")
    return data


def make_entry_rules(where: str, entry: Any) -> list[Rule]:
    """Return the rules of one entry, one per call site.

    An entry is {"operation", "size": communicator sizes, "bytes": {"from", "to"}, "call_sites",
    "algorithm", "parameters", "why", "measured": {"how", "mpi", "hosts", "date"}}. "algorithm" and
    one of "operation" and "call_sites" are required. Bytes mean a block in alltoall, allgather,
    gather, scatter and reduce_scatter_block (of both groups on an inter-communicator). They mean
    the vector or message in bcast, reduce and allreduce, and all counts together in allgatherv and
    reduce_scatter.
    """
    with locate_errors(where):
        return _parse_entry(entry)


def _parse_entry(entry: Any) -> list[Rule]:
    if not isinstance(entry, dict):
        raise UsageError(f"is {_type_name(entry)}, not {{operation, algorithm, ...}}")
    for name in entry:
        if name not in ENTRY_KEYS:
            raise UsageError(f"a plan has no key {name!r}; {suggest_names(name, ENTRY_KEYS)}")
    if "algorithm" not in entry:
        raise UsageError("has no algorithm")
    operation = entry.get("operation")
    if operation is not None:
        operation = check_operation(_check_text("operation", operation))
    sites = entry.get("call_sites") or []
    if not isinstance(sites, list):
        raise UsageError(f"call_sites is {_type_name(sites)}, not a list such as ['app.py:88']")
    if operation is None and not sites:
        raise UsageError("has neither operation nor call_sites")
    parameters = entry.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise UsageError(f"parameters is {_type_name(parameters)}, not {{name: value}}")
    rule = make_rule(operation, None, _check_text("algorithm", entry["algorithm"]), parameters)
    first, last = _parse_byte_range(operation, entry.get("bytes"))
    rule = replace(
        rule,
        first_byte=first,
        last_byte=last,
        sizes=_parse_sizes(entry.get("size")),
        why=_check_text("why", entry.get("why") or ""),
        measured=_parse_provenance(entry.get("measured")),
    )
    call_sites = [check_site(_check_text("a call site", site)) for site in sites]
    return [replace(rule, site=site) for site in call_sites] or [rule]


def _parse_provenance(measured: Any) -> Provenance:
    if measured is None:
        return Provenance()
    if not isinstance(measured, dict) or not measured.keys() <= set(PROVENANCE_KEYS):
        raise UsageError(f"measured is not {{{', '.join(PROVENANCE_KEYS)}}}")
    hosts = measured.get("hosts") or []
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise UsageError("hosts is not a list of names")
    how, mpi, date = (_check_text(n, measured.get(n) or "") for n in ("how", "mpi", "date"))
    return Provenance(how, mpi, tuple(hosts), date)


def _check_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} is {_type_name(value)}, not a text")
    return value


def _type_name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _parse_byte_range(operation: str | None, byte_range: Any) -> tuple[int, int | None]:
    if byte_range is None:
        return 0, None
    if not isinstance(byte_range, dict) or not byte_range.keys() <= {"from", "to"}:
        raise UsageError("bytes is not {from, to}")
    if operation is not None and not OPERATIONS[operation].sized:
        why = "because no member knows all of them"
        raise UsageError(f"a choice cannot depend on the bytes of {operation}, {why}")
    limits = {end: byte_range[end] for end in ("from", "to") if byte_range.get(end) is not None}
    ends = {end: parse_bytes(f"bytes {end}", value) for end, value in limits.items()}
    first, last = ends.get("from", 0), ends.get("to")
    if last is not None and last < first:
        raise UsageError(f"bytes from {first} to {last} is an empty range")
    return first, last


def _parse_sizes(sizes: Any) -> tuple[tuple[int, int], ...]:
    """Return ranges of process counts from 8, [4, 8] or {"from": 4, "to": 8}."""
    if sizes is None:
        return ()
    ranges = []
    for size in sizes if isinstance(sizes, list) else [sizes]:
        span = size if isinstance(size, dict) else {"from": size, "to": size}
        first, last = span.get("from", 1), span.get("to", 1 << 30)
        if not all(type(end) is int for end in (first, last)):
            raise UsageError("size is neither a number of processes nor a list of numbers")
        if not 1 <= first <= last:
            raise UsageError(f"no communicator has a size of {first} to {last}")
        ranges.append((first, last))
    return tuple(ranges)
