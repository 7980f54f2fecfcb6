"""Open MPI's rules file, in the format of its component tuned (coll_tuned_dynamic_file.c, 5.0).

    number of operations; for each operation: its number, number of communicator sizes; for each
    size: the size, number of lines; for each line: bytes, algorithm, fan, bytes of a segment

A size is valid up to the next one, and the first size also below itself; the same holds for bytes.
Algorithm 0 is the library's own choice. It is written below and above each exported range. The
library silently ignores a file that it cannot parse, so `parse_rules` is as strict as the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mpiprof.collectives.tune.export_rules.cells import NO_END, Cell, RefusedError
from mpiprof.errors import MpiprofError
from mpiprof.facts.operations import OPERATIONS

OPERATION_NUMBERS = {
    "allgather": 0,
    "allgatherv": 1,
    "allreduce": 2,
    "alltoall": 3,
    "alltoallv": 4,
    "barrier": 6,
    "bcast": 7,
    "gather": 9,
    "reduce": 11,
    "reduce_scatter": 12,
    "reduce_scatter_block": 13,
    "scatter": 15,
}
MAX_OPERATION_NUMBER = 21  # of an operation
COUNTED_AS_MEAN = ("allgatherv",)  # all bytes divided by the processes
# A block's bytes times the processes.
COUNTED_TIMES_SIZE = ("allgather", "alltoall", "gather", "scatter", "reduce_scatter_block")
# Some of the library's algorithms consist of other operations, which obey their rules too.
CALLED_INSIDE = {
    "allgather": ("gather", "bcast"),
    "allgatherv": ("bcast",),
    "allreduce": ("reduce", "bcast"),
    "reduce_scatter": ("reduce",),
    "reduce_scatter_block": ("reduce", "scatter"),
}
# Members do not see the same size: on the root, or on all other ranks, it comes from an argument
# that is not significant there.
UNEVEN_OPERATIONS = ("gather", "scatter")


@dataclass(frozen=True)
class RuleLine:
    """An algorithm, or 0 for the library's choice, from so many library-counted bytes on."""

    first: int
    algorithm: int
    fan: int
    segment: int


Sizes = tuple[tuple[int, tuple[RuleLine, ...]], ...]
Rules = dict[int, Sizes]
LIBRARY_CHOICE = RuleLine(0, 0, 0, 0)
LINE_FIELDS = ("bytes", "an algorithm", "a fan", "a segment")


def format_rules(cells: Sequence[Cell]) -> str:
    """Return the file for possible cells without overlaps."""
    lines_by_operation: dict[str, dict[int, list[RuleLine]]] = {}
    for cell in cells:
        sizes = lines_by_operation.setdefault(cell.operation, {})
        sizes.setdefault(cell.size, []).extend(cell_lines(cell))
    text = ["# Open MPI: coll_tuned_dynamic_rules_filename"]
    text.append(f"{len(lines_by_operation)} # operations")
    for operation, of_sizes in lines_by_operation.items():
        table = _guard_sizes({size: _join_lines(lines) for size, lines in of_sizes.items()})
        text.append(f"{OPERATION_NUMBERS[operation]} # {operation}")
        text.append(f"{len(table)} # sizes of communicators")
        for size, lines in table:
            text += [f"{size} {len(lines)} # processes, lines"]
            text += [f"{x.first} {x.algorithm} {x.fan} {x.segment}" for x in lines]
    return "\n".join(text) + "\n"


def library_bytes(operation: str, size: int, count: int) -> int:
    """Convert the bytes of a plan to the library's count."""
    if not OPERATIONS[operation].sized:
        return 0
    if operation in COUNTED_AS_MEAN:
        return count // size
    return count * size if operation in COUNTED_TIMES_SIZE else count


def cell_lines(cell: Cell) -> list[RuleLine]:
    """Return a cell's first line, and the line that ends it; raises RefusedError."""
    size, is_whole = cell.size, cell.first == 0 and cell.last == NO_END
    if cell.operation in UNEVEN_OPERATIONS and not is_whole:
        raise RefusedError(
            "its members could choose different algorithms, because Open MPI reads the "
            "bytes from an argument that is not significant on all members: only a rule "
            "for all sizes can be exported"
        )
    first, end = cell.first, cell.last + 1
    if cell.operation in COUNTED_AS_MEAN:
        first, end = -(-first // size), end // size
    elif cell.operation in COUNTED_TIMES_SIZE:
        # A call in place counts as many bytes as its unused arguments have, mostly 0.
        first, end = max(first, 0 if is_whole else 1) * size, cell.last * size + 1
    if first >= end:
        sizes = f"{cell.first} to {cell.last} bytes"
        raise RefusedError(f"Open MPI cannot distinguish {sizes} from other sizes")
    lines = [RuleLine(first, cell.algorithm.number or 0, 0, cell.segment)]
    return lines if cell.last == NO_END else [*lines, RuleLine(end, 0, 0, 0)]


def _join_lines(lines: Sequence[RuleLine]) -> tuple[RuleLine, ...]:
    """Return the lines in order from 0 bytes on; a begin replaces an end at the same bytes."""
    lines_by_first = {0: LIBRARY_CHOICE}
    for line in sorted(lines, key=lambda x: (x.first, x.algorithm)):
        lines_by_first[line.first] = line
    return tuple(lines_by_first.values())


def _guard_sizes(sizes: dict[int, tuple[RuleLine, ...]]) -> Sizes:
    """Return the lines of all sizes, with the library's choice below, between and above them."""
    guards = {0, *(size + 1 for size in sizes)}
    return tuple(sorted((dict.fromkeys(guards, (LIBRARY_CHOICE,)) | sizes).items()))


# ---- reading back


def parse_rules(text: str) -> Rules:
    """Return the rules of a file; raises MpiprofError if the library would ignore the file."""
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    if words and words[0].startswith("rule-file-version-"):
        raise MpiprofError("a rules file of a version other than 1: write it again")
    numbers = iter(words)

    def number(description: str, limit: int = NO_END) -> int:
        word = next(numbers, "")
        if not word.isdecimal() or (len(word) > 1 and word[0] == "0") or int(word) > limit:
            raise MpiprofError(f"not a rules file of Open MPI: {word!r} in place of {description}")
        return int(word)

    rules: Rules = {}
    for _ in range(number("the number of operations", MAX_OPERATION_NUMBER + 1)):
        operation = number("an operation", MAX_OPERATION_NUMBER)
        sizes = []
        for _ in range(number("a number of sizes")):
            size = number("a size")
            count = number("a number of lines")
            lines = tuple(RuleLine(*map(number, LINE_FIELDS)) for _ in range(count))
            if not lines or lines[0].first or not _is_ascending([line.first for line in lines]):
                raise MpiprofError(f"operation {operation}, size {size}: bytes must ascend from 0")
            sizes.append((size, lines))
        if not _is_ascending([size for size, _ in sizes]):
            raise MpiprofError(f"operation {operation}: sizes must ascend")
        rules[operation] = tuple(sizes)
    if next(numbers, None) is not None:
        raise MpiprofError("a rules file of Open MPI with data after its end")
    return rules


def _is_ascending(numbers: Sequence[int]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def find_rule(rules: Rules, operation: str, size: int, count: int) -> RuleLine:
    """Return the rule that the library applies to a call of so many bytes, in its own count."""
    sizes = rules.get(OPERATION_NUMBERS[operation], ())
    if not sizes:
        return LIBRARY_CHOICE
    lines = next((x for s, x in reversed(sizes) if s <= size), sizes[0][1])
    return next((x for x in reversed(lines) if x.first <= count), lines[0])


def find_differences(rules: Rules, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the calls, at all edges, for which a file's rule differs from the cells."""
    sizes = {2} | {near for cell in cells for near in (cell.size - 1, cell.size, cell.size + 1)}
    for operation, number in OPERATION_NUMBERS.items():
        lines = [line.first for _, size_lines in rules.get(number, ()) for line in size_lines]
        operation_cells = [cell for cell in cells if cell.operation == operation]
        for size in sorted(sizes - {0, 1}):
            size_cells = [cell for cell in operation_cells if cell.size == size]
            for count in _edge_counts(operation, operation_cells, lines, size):
                line = find_rule(rules, operation, size, library_bytes(operation, size, count))
                cell = next((c for c in size_cells if c.covers(count)), None)
                if not _agrees(line, cell, count):
                    yield f"{operation} on {size} processes, {count} bytes: {line}"


def _edge_counts(
    operation: str, cells: Sequence[Cell], lines: Sequence[int], size: int
) -> list[int]:
    """Return byte counts, in a plan's measure, near the ends of cells and of a file's lines."""
    scale = size if operation in COUNTED_AS_MEAN else 1
    over = size if operation in COUNTED_TIMES_SIZE else 1
    ends = {0, NO_END, *(end for cell in cells for end in (cell.first, cell.last))}
    ends |= {first * scale // over for first in lines}
    near = {end + step for end in ends for step in (-size, -1, 0, 1, size)}
    return sorted(count for count in near if 0 <= count <= NO_END)


def _agrees(line: RuleLine, cell: Cell | None, count: int) -> bool:
    if cell is None:
        return line.algorithm == 0
    if line.algorithm == 0:
        # The library's resolution is one byte per process.
        near = (count - cell.size, count + cell.size)
        edge = cell.operation in COUNTED_AS_MEAN and not all(cell.covers(n) for n in near)
        return edge or (cell.operation in COUNTED_TIMES_SIZE and count == 0)
    return (line.algorithm, line.segment) == (cell.algorithm.number, cell.segment)
