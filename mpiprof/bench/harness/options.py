"""Options of a study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Options of the command line; empty values mean the study's default."""

    sizes: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    laps: int = 0
    minutes: float = 15.0
    quick: bool = False
    output: Path | None = None
    machine: Path | None = None
    is_calibrated: bool = False  # `calibrate` has measured `machine` on the study's ranks
    full: bool = False
    only: tuple[str, ...] = ()  # parts of the study
    algorithms: tuple[str, ...] = ()
    per_node: int = 1
    node_port: bool = False
    figures: tuple[str, ...] = ()
