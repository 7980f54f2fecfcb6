"""The MPI libraries' own algorithms for blocking collectives, from the table in table.py.

The recorder's generator, `tune` and the reports share this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mpiprof.facts.library_table import (
    ALGORITHM_ROWS,
    FOLDS_OTHERS,
    INTEL,
    MPICH,
    NOT_SELECTABLE,
    OPENMPI,
    SEGMENTED_NAMES,
    SIMILAR_NAMES,
    WRONG_RESULTS,
)

FAMILIES = {OPENMPI: "Open MPI", MPICH: "MPICH", INTEL: "Intel MPI"}  # as in traces and plans

# Releases with algorithms that `--switch` can choose, because they were tested.
SELECTABLE_OPENMPI_RELEASE = "5.0."

# Requirements of an algorithm beyond its library's own checks, by the words of a row.
NEEDS = {
    "pow2": "a power of two of processes",
    "even": "an even number of processes",
    "two": "two processes",
    "commutes": "a commutative operation",
    "elements": "an element for each process",
    "half_elements": "an element for each of the largest power of two of processes",
    "builtin": "an operation of MPI's own",
    "parent": "several processes on a node",
    "consecutive": "consecutive ranks on each node",
    "regular": "blocks of one size",
    "in_place": "MPI_IN_PLACE",
    "not_in_place": "a send buffer other than MPI_IN_PLACE",
}


def mpi_name(version: str) -> str:
    """Return a library's name and release from the text of MPI_Get_library_version."""
    words = version.split("\n")[0].replace("Version:", " ").replace(",", " ").split()
    return " ".join(words[:3] if words[:1] == ["Open"] else words[:2])


@dataclass(frozen=True)
class LibraryAlgorithm:
    """One algorithm of an MPI library."""

    library: str
    operation: str
    name: str
    selected_by: int  # index among its operation's algorithms, the value of its control variable
    # Name of the same algorithm in the catalogue, "" if there is none, or several names with the
    # process counts to which they apply.
    catalogue_name: str = ""
    difference_text: str = ""  # difference of its messages from the catalogue's, "" if all equal
    requirements: tuple[str, ...] = ()  # words of NEEDS
    # Requirements that the library does not check: it would compute a wrong result or end the job.
    unchecked: tuple[str, ...] = ()

    @property
    def number(self) -> int | None:
        """The library's number, None if the library has only names."""
        return None if self.library == MPICH else self.selected_by

    @property
    def is_selectable(self) -> bool:
        """True if `--switch` can choose it."""
        wrong = WRONG_RESULTS.get((self.library, self.operation), "").split()
        return self.library in (OPENMPI, MPICH) and self.name not in (*NOT_SELECTABLE, *wrong)

    @property
    def is_segmented(self) -> bool:
        """True if it sends segments of a configurable size."""
        names = SEGMENTED_NAMES.get(self.operation, "").split()
        return self.library == OPENMPI and self.name in names

    @property
    def similar_name(self) -> str:
        """The catalogue's name of an algorithm that takes about as long, "" if there is none."""
        words = SIMILAR_NAMES.get((self.library, self.operation), "").split()
        names = dict(word.split(":") for word in words)
        equal_name = self.catalogue_name.rpartition(" ")[2].partition(":")[0]
        return equal_name or names.get(self.name, "")

    @property
    def restrictions_text(self) -> str:
        """Its requirements in words."""
        return ", ".join(NEEDS[need] for need in self.requirements)

    def describe_difference(self, size: int) -> str:
        """Return how its messages differ from the catalogue's on so many processes, "" if equal."""
        folds_none = self.difference_text == FOLDS_OTHERS and _is_power_of_two(size)
        return "" if folds_none else self.difference_text

    def runs_on(self, size: int) -> bool:
        """Return True if the library runs this algorithm on so many processes."""
        return all(_meets_requirement(need, size) for need in self.requirements)

    def equals_catalogue(self, name: str, size: int) -> bool:
        """Return True if it equals a catalogue algorithm on so many processes."""
        for word in self.catalogue_name.split():
            catalogue_name, _, need = word.partition(":")
            if catalogue_name == name and _meets_requirement(need, size):
                return True
        return False


def _is_power_of_two(size: int) -> bool:
    return size & (size - 1) == 0


def _meets_requirement(need: str, size: int) -> bool:
    """Return True if a number of processes satisfies a word of NEEDS."""
    power = _is_power_of_two(size)
    conditions = {"pow2": power, "other": not power, "even": size % 2 == 0, "two": size == 2}
    return conditions.get(need, True)


def is_selectable_release(family: str, version: str) -> bool:
    """Return True if `--switch` can choose a library's algorithms; family: the library's name."""
    families = (FAMILIES[OPENMPI], FAMILIES[MPICH])
    return family in families and version.startswith(SELECTABLE_OPENMPI_RELEASE)


@cache
def find_algorithms(library: str = "", operation: str = "") -> tuple[LibraryAlgorithm, ...]:
    """Return the algorithms of a library, or of all, for an operation, or for all."""
    return tuple(
        _parse_row(entry, name, number, row)
        for entry, operations in ALGORITHM_ROWS.items()
        for name, rows in operations.items()
        for number, row in enumerate(rows, 1)
        if library in ("", entry) and operation in ("", name)
    )


def _parse_row(
    library: str, operation: str, number: int, row: tuple[str, str, str, str]
) -> LibraryAlgorithm:
    name, catalogue_name, difference, needs = row
    requirements = tuple(word.removeprefix("!") for word in needs.split())
    unchecked = tuple(word[1:] for word in needs.split() if word.startswith("!"))
    return LibraryAlgorithm(
        library, operation, name, number, catalogue_name, difference, requirements, unchecked
    )


def find_equal(
    library: str, operation: str, catalogue_name: str, size: int
) -> LibraryAlgorithm | None:
    """Return a library's algorithm that equals the catalogue's on so many processes, or None."""
    rows = find_algorithms(library, operation)
    return next((row for row in rows if row.equals_catalogue(catalogue_name, size)), None)


def find_named(library: str, operation: str, name: str) -> LibraryAlgorithm | None:
    """Return a library's algorithm by its name or number, or None if it does not exist."""
    rows = find_algorithms(library, operation)
    return next((row for row in rows if name in (row.name, str(row.number))), None)
