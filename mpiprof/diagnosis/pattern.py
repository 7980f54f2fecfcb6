"""One pattern of lateness at a call site."""

from __future__ import annotations

from dataclasses import dataclass

from mpiprof.trace.types import Int


@dataclass(frozen=True)
class Pattern:
    """A pattern: its late ranks, instances and amount of lateness; times in ns.

    - cause: an entry of findings.CAUSES. ranks: world ranks, the latest first.
    - late_ns: usual lateness, or for an outlier, lateness in the worst of its instances.
    - instances: columns of the arrival matrix in which the pattern holds.
    - period, offsets: the pattern affects instances with number % period in offsets.
    - step: number of ranks by which lateness moves on each time.
    - gain_ns: wait in the sample that the pattern explains. p: p-value of the pattern.
    - once: index of the earlier pattern that must be removed before this one costs wait, or None.
    - each: True if all ranks differ and `ranks` are the latest.
    - shows: number of instances in which the rank due is late by half of late_ns, or None if the
      pattern is no rotation.
    - levels: if the lateness differs between phases, first column, last column and lateness of
      each.
    - grows: first and last lateness if it changes steadily.
    """

    cause: str
    ranks: tuple[int, ...]
    late_ns: float
    instances: Int
    gain_ns: float
    p: float
    period: int | None = None
    offsets: tuple[int, ...] = ()
    step: int | None = None
    node: str | None = None
    once: int | None = None
    each: bool = False
    shows: int | None = None
    levels: tuple[tuple[int, int, float], ...] = ()
    grows: tuple[float, float] | None = None
