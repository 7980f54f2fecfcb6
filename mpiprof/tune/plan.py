"""Plans: which algorithm for which operations and call sites, as people write them.

A plan is read, and everything in it checked, before a program starts: by the launcher, which must
not wait for numpy. What the recorder gets is a text in its environment (core/rules.c).

    operation=algorithm[:parameter=value...]    all calls of an operation
    app.py:88=algorithm[:parameter=value...]    a call site, as the communicator's rank 0 sees it
    PLAN.json                                   a list of entries, see `entry_rules`
    random:SEED                                 for tests: a valid algorithm at every call
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mpiprof.errors import UsageError
from mpiprof.model.catalogue import Algorithm, catalogue, parameters_of

NATIVE = "native"
UNSIZED = ("alltoallv", "barrier", "gatherv", "scatterv")  # where no member knows all sizes
KEYS = ("operation", "size", "bytes", "call_sites", "algorithm", "parameters", "why")
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
MOST_BYTES = 1 << 40
MOST_TEXT = 100_000  # the system's limit for one variable is 131072
SITE = re.compile(r"[^:]+:[1-9][0-9]*")


@dataclass(frozen=True)
class Rule:
    """One wish; no operation: whatever its call site calls. Ranges hold both of their ends."""

    algorithm: str
    operation: str | None = None
    site: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    first_byte: int = 0
    last_byte: int | None = None
    sizes: tuple[tuple[int, int], ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Plan:
    """The rules of a specification in their order, or the seed of a random choice."""

    rules: tuple[Rule, ...] = ()
    seed: int | None = None

    @property
    def sites(self) -> tuple[str, ...]:
        """The call sites that it names."""
        return tuple(dict.fromkeys(rule.site for rule in self.rules if rule.site is not None))

    def text(self) -> str:
        """Return what the recorder reads; raises UsageError when there is too much of it."""
        if self.seed is not None:
            return f"random {self.seed}"
        found = "".join(_line(rule) for rule in self.rules)
        if len(os.fsencode(found)) > MOST_TEXT:
            raise UsageError(
                f"--switch: {len(self.rules)} rules are too many to hand over: leave out some"
            )
        return found


def read(specification: str) -> Plan:
    """Return the plan that --switch names; raises UsageError for the first mistake in it."""
    if os.path.isfile(specification):  # noqa: PTH113 - Path's fails where it's too long a name
        return Plan(tuple(file_rules(Path(specification))))
    rules: list[Rule] = []
    for item in _items(specification):
        if item.startswith("random:"):
            if item != specification:
                raise UsageError(f"--switch {item}: goes with nothing else")
            return Plan(seed=_seed(item))
        if "=" in item:
            rules.append(_item_rule(item))
        else:
            rules += file_rules(Path(item))
    return Plan(tuple(rules))


def absolute(specification: str) -> str:
    """Return a specification with the full paths of its files, for a process elsewhere."""
    if os.path.isfile(specification):  # noqa: PTH113 - Path's fails where it's too long a name
        return str(Path(specification).absolute())
    items = _items(specification)
    return ",".join(
        i if "=" in i or i.startswith("random:") else str(Path(i).absolute()) for i in items
    )


def _items(specification: str) -> list[str]:
    items = [item.strip() for item in specification.split(",")]
    if not all(items):
        raise UsageError(
            f"--switch {specification!r}: empty; give operation=algorithm, such as alltoall=ring, "
            "app.py:88=ring, or PLAN.json"
        )
    return items


def _seed(item: str) -> int:
    text = item.removeprefix("random:")
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 64):
        raise UsageError(f"--switch {item}: {text!r} is no seed, a number from 0 to 2^64 - 1")
    return int(text)


def _item_rule(item: str) -> Rule:
    what, _, how = item.partition("=")
    algorithm, *words = how.split(":")
    where = f"--switch {item}"
    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{where}: {word!r} is no parameter=value")
        if name in given:
            raise UsageError(f"{where}: {name} is given twice")
        given[name] = value
    if ":" in what:
        return _rule(where, None, _site(where, what), algorithm, given)
    return _rule(where, _operation(where, what), None, algorithm, given)


# ---- plan files


def file_rules(path: Path) -> Iterator[Rule]:
    """Yield the rules of a plan file; raises UsageError with the file and the entry."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        hint = "" if path.suffix == ".json" else ", nor operation=algorithm"
        raise UsageError(f"--switch {path}: {reason}{hint} (seen from {Path.cwd()})") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is no text, so no plan") from None
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path}, line {error.lineno}, column {error.colno}: no JSON: {error.msg}"
        ) from None
    if not isinstance(data, list):
        raise UsageError(f"{path}: a plan is a list of entries, this is {_kind(data)}")
    for number, entry in enumerate(data, 1):
        yield from entry_rules(f"{path}, entry {number}", entry)


def entry_rules(where: str, entry: Any) -> list[Rule]:
    """Return the rules of one entry, one a call site.

    An entry is {"operation", "size": communicator sizes, "bytes": {"from", "to"}, "call_sites",
    "algorithm", "parameters", "why"}; "algorithm" and one of "operation" and "call_sites" must be
    there. Bytes are those of a block in alltoall, allgather, gather, scatter and
    reduce_scatter_block (of both groups' on an inter-communicator), of the vector or message in
    bcast, reduce and allreduce, and of all counts together in allgatherv and reduce_scatter.
    """
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: is {_kind(entry)}, not {{operation, algorithm, ...}}")
    for name in entry:
        if name not in KEYS:
            raise UsageError(f"{where}: no key {name!r} in a plan; {_nearest(name, KEYS)}")
    if "algorithm" not in entry:
        raise UsageError(f"{where}: names no algorithm")
    operation = entry.get("operation")
    if operation is not None:
        operation = _operation(where, _text(where, "operation", operation))
    sites = entry.get("call_sites") or []
    if not isinstance(sites, list):
        raise UsageError(f"{where}: call_sites is {_kind(sites)}, not a list such as ['app.py:88']")
    if operation is None and not sites:
        raise UsageError(f"{where}: names neither an operation nor call_sites")
    parameters = entry.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise UsageError(f"{where}: parameters is {_kind(parameters)}, not {{name: value}}")
    rule = _rule(where, operation, None, _text(where, "algorithm", entry["algorithm"]), parameters)
    first, last = _bytes_range(where, operation, entry.get("bytes"))
    rule = replace(
        rule,
        first_byte=first,
        last_byte=last,
        sizes=_sizes(where, entry.get("size")),
        why=_text(where, "why", entry.get("why") or ""),
    )
    if not sites:
        return [rule]
    return [replace(rule, site=_site(where, _text(where, "a call site", s))) for s in sites]


def _text(where: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where}: {name} is {_kind(value)}, not a text")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _bytes_range(where: str, operation: str | None, given: Any) -> tuple[int, int | None]:
    if given is None:
        return 0, None
    if not isinstance(given, dict) or not given.keys() <= {"from", "to"}:
        raise UsageError(f"{where}: bytes is not {{from, to}}")
    if operation in UNSIZED:
        raise UsageError(
            f"{where}: no choice can depend on the bytes of {operation}, as no member knows all"
        )
    first = 0 if given.get("from") is None else _bytes(where, "bytes from", given["from"])
    last = None if given.get("to") is None else _bytes(where, "bytes to", given["to"])
    if last is not None and last < first:
        raise UsageError(f"{where}: bytes from {first} to {last}: the range is empty")
    return first, last


def _bytes(where: str, name: str, value: Any, least: int = 0) -> int:
    found = -1
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str):
        parts = re.fullmatch(r"([0-9]+)([kmg]?)(?:i?b)?", value.strip().lower())
        if parts:
            found = int(parts[1]) * UNITS[parts[2]]
    if not least <= found <= MOST_BYTES:
        raise UsageError(
            f"{where}: {name}={value}: a number of bytes from {least} to 2^40, such as 65536 or 64K"
        )
    return found


def _sizes(where: str, given: Any) -> tuple[tuple[int, int], ...]:
    """Numbers of processes: 8, [4, 8] or {"from": 4, "to": 8}."""
    if given is None:
        return ()
    found = []
    for one in given if isinstance(given, list) else [given]:
        ends = (one.get("from", 1), one.get("to", 1 << 30)) if isinstance(one, dict) else (one, one)
        if not all(isinstance(end, int) and not isinstance(end, bool) for end in ends):
            raise UsageError(f"{where}: size is neither a number of processes nor a list of such")
        if not 1 <= ends[0] <= ends[1]:
            raise UsageError(f"{where}: size {ends[0]} to {ends[1]}: no communicator has it")
        found.append((ends[0], ends[1]))
    return tuple(found)


# ---- names and values


def _operation(where: str, name: str) -> str:
    known = list(dict.fromkeys(a.operation for a in catalogue()))
    if name in known:
        return name
    blocking = name.removeprefix("i").removesuffix("_init")
    if blocking != name and blocking in known:
        raise UsageError(f"{where}: {name} is not switched, only the blocking {blocking} is")
    raise UsageError(f"{where}: no operation {name!r} to switch; {_nearest(name, known)}")


def _site(where: str, text: str) -> str:
    if SITE.fullmatch(text) is None or any(ord(c) < 32 for c in text):
        raise UsageError(f"{where}: {text!r} is no call site, a file and a line such as app.py:88")
    return text.removeprefix("./")


def _rule(
    where: str,
    operation: str | None,
    site: str | None,
    algorithm: str,
    parameters: Mapping[str, Any],
) -> Rule:
    possible = [a for a in catalogue() if operation in (a.operation, None)]
    found = [a for a in possible if a.name == algorithm]
    if algorithm != NATIVE and not found:
        known = list(dict.fromkeys([*(a.name for a in possible), NATIVE]))
        of = f" for {operation}" if operation else ""
        raise UsageError(f"{where}: no algorithm {algorithm!r}{of}; {_nearest(algorithm, known)}")
    checked = tuple(_parameter(where, algorithm, found, n, v) for n, v in parameters.items())
    return Rule(algorithm, operation, site, checked)


def _parameter(
    where: str, algorithm: str, found: Sequence[Algorithm], name: str, value: Any
) -> tuple[str, str]:
    known: dict[str, tuple[str, ...]] = {}
    for one in found:
        known |= parameters_of(one)
    if name not in known:
        if not known:
            raise UsageError(f"{where}: {algorithm} has no parameters, so no {name!r}")
        raise UsageError(f"{where}: {algorithm} has no {name!r}; {_nearest(name, known)}")
    values = known[name]
    if not values:
        return name, str(_bytes(where, name, value, least=1))
    if value not in values:
        raise UsageError(f"{where}: {name}={value}: it is one of {', '.join(values)}")
    return name, str(value)


def _nearest(word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(word, names, 3, 0.6)
    if len(close) == 1:
        return f"did you mean {close[0]}?"
    return f"the nearest: {', '.join(close)}" if close else f"there are: {', '.join(names)}"


# ---- for the recorder


def _line(rule: Rule) -> str:
    """Return one line of MPIPROF_SWITCH; see core/rules.c."""
    given = dict(rule.parameters)
    orders = {name: i for i, name in enumerate(("ranks", "spread", "nodes", "both"))}
    words = [
        rule.operation or "*",
        rule.algorithm,
        rule.first_byte,
        -1 if rule.last_byte is None else rule.last_byte,
        given.get("block_size", 0),
        orders[given.get("order", "ranks")],
        int(given.get("blocks") == "equal"),
        _ranges(rule.sizes),
        "*" if rule.site is None else _word(rule.site),
        _ranges(rule.ranges),
    ]
    return " ".join(map(str, words)) + ";"


def _ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    return ",".join(f"{first}-{last}" for first, last in ranges) or "*"


def _word(text: str) -> str:
    return "".join(f"%{ord(c):02x}" if c in " ;%*" else c for c in text)
