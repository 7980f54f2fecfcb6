"""A variant: an algorithm with its parameters, in one spelling.

    pipelined_ring:block_size=65536:blocks=equal:order=both

Users, the recorder (core/executor/variant.c), traces and plans all use this spelling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the launcher reads variants and must not wait for numpy
    from mpiprof.collectives.schedule import Problem

NATIVE = "native"


@dataclass(frozen=True)
class Variant:
    """Name of an algorithm, and its parameters as pairs of texts."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Return the variant of a text; a word without = is a parameter with an empty value."""
        name, *words = text.split(":")
        # An algorithm of the MPI library, such as `native:ring`.
        if name == NATIVE and words and "=" not in words[0]:
            name = f"{name}:{words.pop(0)}"
        return cls(name, tuple((key, value) for key, _, value in (w.partition("=") for w in words)))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return ":".join([self.name, *(f"{key}={value}" for key, value in self.parameters)])

    def set_parameters(self, problem: Problem) -> Problem:
        """Return the problem with these parameters set."""
        changes: dict[str, Any] = {}
        for name, value in self.parameters:
            if name in ("block_size", "late"):
                changes[name] = int(value)
            elif name == "order":
                changes[name] = value
            elif name == "blocks":
                changes["equal_blocks"] = value == "equal"
        return replace(problem, **changes)
