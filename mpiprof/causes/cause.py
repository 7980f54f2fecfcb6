"""One cause of lost time, as its file in this package detects it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from mpiprof.causes.place import Place
from mpiprof.causes.removal import Removal, Saving


@dataclass(frozen=True)
class Cause(ABC):
    """A cause and its evidence. Each subclass has its own file.

    finder: the function of this file that finds the cause. icon: of the page. weight: factor of the
    saving, in the order of causes and habits. ranks: that the cause concerns, the main one first.
    places: of the work, the main one first.
    """

    finder: ClassVar[str] = "make_causes"
    icon: ClassVar[str]
    weight: ClassVar[float] = 1.05  # because facts need no test
    ranks: tuple[int, ...]
    places: tuple[Place, ...]

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name in JSON, a key of diagnosis/finding.py's CAUSES."""

    @property
    def is_first(self) -> bool:
        """Return whether the cause is stated before all others, because it disturbs their times."""
        return False

    @property
    def repair(self) -> str:
        """Return the begin of the sentence on the saving."""
        return "Without that"

    @property
    @abstractmethod
    def title(self) -> str:
        """Return the heading, one short line."""

    @property
    @abstractmethod
    def clause(self) -> str:
        """Return who or what causes waiting, when and where, as a clause without its cost."""

    @property
    @abstractmethod
    def reason(self) -> str:
        """Return the reason in few words, "" if it is unknown."""

    @property
    @abstractmethod
    def advice(self) -> str:
        """Return where to look, or what to change."""


@dataclass(frozen=True)
class FoundCause:
    """A cause, the time that the run would lack without it, and what that saves."""

    cause: Cause
    removal: Removal
    saving: Saving
