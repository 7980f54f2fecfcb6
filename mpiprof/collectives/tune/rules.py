"""Rules, which assign an algorithm to an operation or call site, and checks of their values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mpiprof.collectives import catalogue
from mpiprof.collectives.variant import NATIVE as NATIVE
from mpiprof.collectives.variant import Variant
from mpiprof.errors import UsageError
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.interface.parse_units import MAX_NUMBER

STATIC = "static"  # protocol by processes and bytes (core/selection/rules/rabenseifner_protocol.c)
PAPER_OPERATIONS = ("reduce", "allreduce")
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
MAX_BYTES = 1 << 40
BYTES_PATTERN = re.compile(r"([0-9]{1,18})([kmg]?)(?:i?b)?")
SITE_PATTERN = re.compile(r"[^:]+:[1-9][0-9]*")
NATIVE_VARIANT = re.compile(r"native:[A-Za-z0-9_-]{1,48}")  # the library's algorithm of that name
SEGMENT = "segment"  # bytes of the messages into which a library's algorithm divides the data


@dataclass(frozen=True)
class Provenance:
    """Provenance of an entry: method, MPI, hosts and date."""

    method: str = ""
    mpi: str = ""
    hosts: tuple[str, ...] = ()
    date: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule; without an operation it applies to any call of its site. Ranges are inclusive."""

    algorithm: str
    operation: str | None = None
    site: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    first_byte: int = 0
    last_byte: int | None = None
    sizes: tuple[tuple[int, int], ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    why: str = ""
    measured: Provenance = Provenance()
    file: str = field(default="", compare=False)  # of the plan
    entry: int = field(default=0, compare=False)  # number in the plan file

    @property
    def variant(self) -> Variant:
        """The algorithm with its parameters."""
        return Variant(self.algorithm, self.parameters)

    @property
    def source_text(self) -> str:
        """Name of the rule in messages."""
        return f"{self.file}, entry {self.entry}" if self.file else f"--switch {self.site or ''}"


# ---- names and values


@contextmanager
def locate_errors(where: str) -> Iterator[None]:
    """Put the location of a rule before the message of a UsageError."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def check_operation(name: str) -> str:
    """Return a selectable operation; raises UsageError with the nearest name."""
    operations = list(dict.fromkeys(a.operation for a in catalogue.load_catalogue()))
    if name in operations:
        return name
    blocking = name.removeprefix("i").removesuffix("_init")
    if blocking != name and blocking in operations:
        fact = f"the algorithm of {name} cannot be selected"
        raise UsageError(f"{fact}, only that of the blocking {blocking}")
    raise UsageError(f"unknown operation {name!r}; {suggest_names(name, operations)}")


def check_site(text: str) -> str:
    """Return a call site in the recorder's form; raises UsageError."""
    if SITE_PATTERN.fullmatch(text) is None or any(ord(c) < 32 for c in text):
        raise UsageError(f"{text!r} is not a call site, a file and a line such as app.py:88")
    return text.removeprefix("./")


def is_named(name: str, path: str) -> bool:
    """Return True if a file or call site is the named one; names may lack leading folders."""
    return path == name or path.endswith(f"/{name}")


def make_rule(
    operation: str | None, site: str | None, algorithm: str, parameters: Mapping[str, Any]
) -> Rule:
    """Return a rule with checked names and values; raises UsageError with the nearest name."""
    possible = [a for a in catalogue.load_catalogue() if operation in (a.operation, None)]
    algorithms = [a for a in possible if a.name == algorithm]
    if NATIVE_VARIANT.fullmatch(algorithm):
        checked = _library_parameters(operation, algorithm, parameters)
        return Rule(algorithm, operation, site, checked)
    names = [NATIVE, *([STATIC] if operation in PAPER_OPERATIONS else [])]
    if algorithm not in names and not algorithms:
        valid_names = list(dict.fromkeys([*(a.name for a in possible), *names]))
        purpose = f" for {operation}" if operation else ""
        nearest = suggest_names(algorithm, valid_names)
        raise UsageError(f"no algorithm {algorithm!r}{purpose}; {nearest}")
    checked = tuple(_check_parameter(algorithm, algorithms, n, v) for n, v in parameters.items())
    return Rule(algorithm, operation, site, checked)


def library_name(algorithm: str) -> str:
    """Return the library's name or number in `native:ring`, or "" for any other algorithm."""
    return algorithm.removeprefix("native:") if NATIVE_VARIANT.fullmatch(algorithm) else ""


def _library_parameters(
    operation: str | None, algorithm: str, parameters: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    """Return the parameters of a library's algorithm; raises UsageError if no library has it."""
    name = library_name(algorithm)
    possible = [a for a in find_algorithms() if operation in (a.operation, None)]
    matching = [a for a in possible if name in (a.name, str(a.selected_by))]
    if not matching:
        names = list(dict.fromkeys(a.name for a in possible))
        purpose = f" for {operation}" if operation else ""
        raise UsageError(f"no library has {name!r}{purpose}; {suggest_names(name, names)}")
    for parameter in parameters:
        if parameter != SEGMENT or not any(a.is_segmented for a in matching):
            raise UsageError(f"{algorithm} has no parameters, so no {parameter!r}")
    return tuple((n, str(parse_bytes(n, v, minimum=1))) for n, v in parameters.items())


def parse_bytes(name: str, value: Any, minimum: int = 0) -> int:
    """Return bytes from a number or a text such as 64K; raises UsageError with the range."""
    parts = BYTES_PATTERN.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    number = int(parts[1]) * UNITS[parts[2]] if parts else value
    if type(number) is not int or not minimum <= number <= MAX_BYTES:
        limits = f"from {minimum} to 2^40, such as 65536 or 64K"
        raise UsageError(f"{name}={value}: a number of bytes {limits}")
    return number


def _check_parameter(
    algorithm: str, algorithms: Sequence[catalogue.Algorithm], name: str, value: Any
) -> tuple[str, str]:
    parameters = dict(pair for a in algorithms for pair in catalogue.parse_parameters(a).items())
    if name not in parameters:
        if not parameters:
            raise UsageError(f"{algorithm} has no parameters, so no {name!r}")
        raise UsageError(f"{algorithm} has no {name!r}; {suggest_names(name, parameters)}")
    values = parameters[name]
    if values == catalogue.BYTE_PARAMETER:
        return name, str(parse_bytes(name, value, minimum=1))
    if values == catalogue.RANK_PARAMETER:
        is_number = re.fullmatch("[0-9]{1,10}", str(value)) is not None
        if not is_number or int(value) > MAX_NUMBER:
            raise UsageError(f"{name}={value}: a rank of the communicator, such as 3")
        return name, str(int(value))
    if value not in values:
        raise UsageError(f"{name}={value}: it is one of {', '.join(values)}")
    return name, str(value)


# ---- for the recorder


def format_rule(rule: Rule) -> str:
    """Return one line of MPIPROF_SWITCH; see core/selection/rules/rules.c."""
    site = "".join(f"%{ord(c):02x}" if c in " ;%*" else c for c in rule.site or "") or "*"
    words = [
        rule.operation or "*",
        rule.variant,
        rule.first_byte,
        -1 if rule.last_byte is None else rule.last_byte,
        _format_ranges(rule.sizes),
        site,
        _format_ranges(rule.ranges),
    ]
    return " ".join(map(str, words)) + ";"


def _format_ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    return ",".join(f"{first}-{last}" for first, last in ranges) or "*"
