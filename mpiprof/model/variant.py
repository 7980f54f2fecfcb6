"""A variant: an algorithm with its parameters, in one spelling.

    pipelined_ring:block_size=65536:blocks=equal:order=both

is what people write, what the recorder reads (core/run/variant.c), what traces and plans have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the launcher reads variants, and must not wait for numpy
    from mpiprof.model.schedule import Problem


NATIVE = "native"


@dataclass(frozen=True)
class Variant:
    """An algorithm's name, and its parameters as pairs of texts."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, text: str) -> Variant:
        """Return the variant of a text; a word without = is a parameter of no value.

        Of `native:ring`, one of the library's own, both words are the name.
        """
        name, *words = text.split(":")
        if name == NATIVE and words and "=" not in words[0]:
            name = f"{name}:{words.pop(0)}"
        return cls(name, tuple((key, value) for key, _, value in (w.partition("=") for w in words)))

    def __str__(self) -> str:
        """Return its text, which `read` understands."""
        return ":".join([self.name, *(f"{key}={value}" for key, value in self.parameters)])

    def apply(self, problem: Problem) -> Problem:
        """Return a problem with the parameters set."""
        words = dict(self.parameters)
        changes: dict[str, Any] = {}
        if "block_size" in words:
            changes["block_size"] = int(words["block_size"])
        if "order" in words:
            changes["order"] = words["order"]
        if "blocks" in words:
            changes["equal_blocks"] = words["blocks"] == "equal"
        if "late" in words:
            changes["late"] = int(words["late"])
        return replace(problem, **changes)
