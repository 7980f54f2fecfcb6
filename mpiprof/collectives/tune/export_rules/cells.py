"""Converts a plan's rules to cells of an operation, a size and a byte range, for one library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from mpiprof.collectives.catalogue import applies_to_size, load_catalogue
from mpiprof.collectives.tune.rules import NATIVE, STATIC, Rule, is_named
from mpiprof.facts.library_algorithms import (
    FAMILIES,
    LibraryAlgorithm,
    find_algorithms,
    find_equal,
    find_named,
)

if TYPE_CHECKING:
    from mpiprof.collectives.tune.tasks import TuningTask

MAX_ELEMENT_BYTES = 16  # bytes of MPI's largest predefined type; the program's type is unknown
MAX_SIZE = 4096  # of a communicator
MAX_SEGMENT_BYTES = (1 << 31) - 1  # libraries store it in an int
NO_END = 1 << 62

Span = tuple[int, int]  # first and last byte, as a plan counts them


@dataclass(frozen=True)
class Cell:
    """Calls of an operation on `size` processes with first .. last bytes, as a plan counts them."""

    operation: str
    size: int
    first: int
    last: int
    algorithm: LibraryAlgorithm  # the library's
    segment: int  # bytes of a pipeline's blocks, 0 for none
    source: str  # location of the requesting entry
    request: str  # text of that entry

    def covers(self, count: int) -> bool:
        """Return True if the byte count is within the cell's range."""
        return self.first <= count <= self.last


class Refusal(NamedTuple):
    """An entry that could not be exported: its location and request, and the reason."""

    source: str
    request: str
    reason: str


@dataclass(frozen=True)
class ExportRequest:
    """Input of an export."""

    rules: Sequence[Rule]
    library: str
    largest: int = 0  # number of processes of the job, 0 if unknown
    calls: Sequence[TuningTask] | None = None  # of a trace on intra-communicators, if any
    commutative: bool = False  # all user-defined operations of the program commute


class RefusedError(Exception):
    """Reason why a rule cannot be exported."""


class Refusals(dict[Refusal, list[int]]):
    """Refusals in order, each with the communicator sizes of equal refusals."""

    def add(self, source: str, request: str, reason: str, size: int = 0) -> None:
        """Add a refusal; size 0 means all sizes."""
        sizes = self.setdefault(Refusal(source, request, reason), [])
        if size and size not in sizes:
            sizes.append(size)


def exclude_cells(
    cells: Sequence[Cell], check: Callable[[Cell], object], refusals: Refusals
) -> list[Cell]:
    """Return the cells for which `check` raises no RefusedError; add the others to `refusals`."""
    expressible = []
    for cell in cells:
        entry = (cell.source, cell.request)
        try:
            check(cell)
            expressible.append(cell)
        except RefusedError as error:
            refusals.add(*entry, str(error), cell.size)
    return expressible


def make_cells(request: ExportRequest, refusals: Refusals) -> list[Cell]:
    """Return cells without overlaps, and add the rules that cannot be exported to `refusals`."""
    cells: list[Cell] = []
    covered_spans: dict[tuple[str, int], list[Span]] = {}
    for rule in _split_by_operation(request.rules):
        span = (rule.first_byte, NO_END if rule.last_byte is None else rule.last_byte)
        if rule.algorithm != NATIVE and not _is_known(request, rule):
            why = f"names a call site at which the trace has no {rule.operation}"
            refusals.add(rule.source_text, _describe(rule), why)
            continue
        for size in _rule_sizes(request, rule, refusals):
            spans = covered_spans.setdefault((str(rule.operation), size), [])
            for part in list(_free_spans(span, spans)):
                # As in `run`, the first matching rule counts. If that rule cannot be exported, the
                # calls stay with the library, even if later rules match them.
                spans.append(part)
                try:
                    cells += _make_cell(request, rule, size, part, refusals)
                except RefusedError as error:
                    refusals.add(rule.source_text, _describe(rule), str(error), size)
    return sorted(cells, key=lambda cell: (cell.operation, cell.size, cell.first))


def _split_by_operation(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Yield the rules, one operation each, with rules for call sites first as in `run`."""
    for rule in sorted(rules, key=lambda r: r.site is None):
        operations = [rule.operation]
        if rule.operation is None:
            of_library = rule.algorithm.startswith(NATIVE)
            algorithms = [a for a in load_catalogue() if of_library or a.name == rule.algorithm]
            operations = list(dict.fromkeys(a.operation for a in algorithms))
        for operation in operations:
            yield replace(rule, operation=operation)


def _describe(rule: Rule) -> str:
    at = f" at {rule.site}" if rule.site else ""
    return f"{rule.operation}={rule.variant}{at}"


def _free_spans(span: Span, covered: Sequence[Span]) -> Iterator[Span]:
    """Yield the free parts of a range."""
    first, last = span
    for begin, end in sorted(covered):
        if end < first or begin > last:
            continue
        if begin > first:
            yield first, begin - 1
        first = end + 1
    if first <= last:
        yield first, last


def _rule_sizes(request: ExportRequest, rule: Rule, refusals: Refusals) -> list[int]:
    """Return the communicator sizes of a rule, as far as they are known."""
    sizes: set[int] = set()
    for first, last in rule.sizes or ((2, 1 << 30),):
        end = last if last <= MAX_SIZE else request.largest
        if not end:
            why = "has no largest communicator: pass the number of ranks with -n"
            refusals.add(rule.source_text, _describe(rule), why)
        sizes |= set(range(max(first, 2), min(end, MAX_SIZE) + 1))
    return sorted(sizes)


def _make_cell(
    request: ExportRequest, rule: Rule, size: int, part: Span, refusals: Refusals
) -> list[Cell]:
    """Return a rule's cell, or [] if it leaves calls to the library; raises RefusedError."""
    operation = str(rule.operation)
    if rule.algorithm == NATIVE:
        return []
    if rule.site is not None and not _is_called(request, rule, size, part):
        return []
    if not _applies(operation, rule, size):
        return []  # as in `run`
    chosen = _library_algorithm(request, rule, size)
    if not chosen.runs_on(size):
        raise RefusedError(f"needs {chosen.restrictions_text}")
    if "commutes" in chosen.unchecked and not request.commutative:
        fact = f"{FAMILIES[request.library]} does not check whether the reduction commutes"
        effect = "other reductions would give wrong results"
        raise RefusedError(f"{fact}, so {effect}: pass --commutative if all commute")
    smallest = MAX_ELEMENT_BYTES * _min_elements(chosen, size)
    source = (rule.source_text, _describe(rule))
    cell = Cell(operation, size, *part, chosen, _segment_bytes(rule, chosen), *source)
    if part[0] >= smallest:
        return [cell]
    why = f"requires {chosen.restrictions_text}, which may not hold below {smallest} bytes"
    refusals.add(*source, why, size)
    return [replace(cell, first=smallest)] if smallest <= part[1] else []


def _library_algorithm(request: ExportRequest, rule: Rule, size: int) -> LibraryAlgorithm:
    operation = str(rule.operation)
    library = FAMILIES[request.library]
    if rule.algorithm == STATIC:
        fact = "selects different algorithms from call to call"
        raise RefusedError(f"{fact}: name one algorithm, and its bytes")
    if rule.algorithm.startswith(f"{NATIVE}:"):
        measured = rule.measured.mpi
        if measured and library not in measured:
            raise RefusedError(f"is an algorithm of {measured}")
        name = rule.algorithm.partition(":")[2]
        chosen = find_named(request.library, operation, name)
        if chosen is None:
            names = [algorithm.name for algorithm in find_algorithms(request.library, operation)]
            has = ", ".join(names) or "none"
            raise RefusedError(f"{library} has no such {operation} algorithm: it has {has}")
        return chosen
    equivalent = find_equal(request.library, operation, rule.algorithm, size)
    if equivalent is None:
        raise RefusedError(f"{library} has no equivalent {operation} algorithm")
    return equivalent


def _applies(operation: str, rule: Rule, size: int) -> bool:
    key = (operation, rule.algorithm)
    algorithms = [a for a in load_catalogue() if (a.operation, a.name) == key]
    fits = any(applies_to_size(a, size) for a in algorithms if not a.intercommunicator)
    return fits or not algorithms


def _segment_bytes(rule: Rule, chosen: LibraryAlgorithm) -> int:
    block_size = int(dict(rule.parameters).get("block_size", 0))
    if not block_size and chosen.name == "pipeline":
        raise RefusedError("has no block_size, and the default of mpiprof depends on the machine")
    if block_size > MAX_SEGMENT_BYTES:
        raise RefusedError(f"has blocks of more than {MAX_SEGMENT_BYTES} bytes")
    return block_size


def _min_elements(chosen: LibraryAlgorithm, size: int) -> int:
    if "elements" in chosen.requirements:
        return size
    return 1 << (size.bit_length() - 1) if "half_elements" in chosen.requirements else 0


# ---- call sites


def _is_known(request: ExportRequest, rule: Rule) -> bool:
    """Return True if a rule names no call site or one of the trace, or if there is no trace."""
    if request.calls is None or rule.site is None:
        return True
    calls = [call for call in request.calls if call.operation == rule.operation]
    return any(is_named(rule.site, site) for call in calls for site in call.sites)


def _is_called(request: ExportRequest, rule: Rule, size: int, part: Span) -> bool:
    """Return True if a rule's site has such calls; raises RefusedError if other sites have, too."""
    if request.calls is None:
        raise RefusedError(
            "names a call site, which the library cannot distinguish: pass the TRACE to "
            "check that no other call site changes, or remove call_sites from the plan"
        )
    is_called = False
    for call in request.calls:
        if (call.operation, call.size) != (rule.operation, size):
            continue
        span = call.bytes or (0, NO_END)
        inside = (max(span[0], part[0]), min(span[1], part[1]))
        if inside[0] > inside[1]:
            continue
        if not any(_requests_same(other_rule, rule, call, inside) for other_rule in request.rules):
            raise RefusedError(f"would also change {call.operation} at {call.label}")
        is_called |= any(is_named(str(rule.site), site) for site in call.sites)
    return is_called


def _requests_same(other_rule: Rule, rule: Rule, call: TuningTask, inside: Span) -> bool:
    """Return True if a rule requests the same variant for a call, over a whole range of bytes."""
    last = NO_END if other_rule.last_byte is None else other_rule.last_byte
    return (
        other_rule.operation in (rule.operation, None)
        and other_rule.variant == rule.variant
        and (other_rule.site is None or any(is_named(other_rule.site, site) for site in call.sites))
        and other_rule.first_byte <= inside[0]
        and inside[1] <= last
        and (not other_rule.sizes or any(a <= call.size <= b for a, b in other_rule.sizes))
    )
