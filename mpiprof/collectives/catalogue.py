"""The catalogue of algorithms, read from the C core. Needs no numpy, because `run` reads it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from mpiprof.errors import MpiprofError
from mpiprof.interface.installation import load_library

BYTE_PARAMETER, RANK_PARAMETER = ("BYTES",), ("RANK",)  # values of numeric parameters


@dataclass(frozen=True)
class Algorithm:
    """One entry of the catalogue; `index` is its position."""

    index: int
    operation: str
    name: str
    restrictions: str
    cost: str
    parameters: str
    source: str
    intercommunicator: bool
    keeps_order: bool
    needs_counts: bool


@cache
def load_schedules() -> ctypes.CDLL:
    """Return the C library of schedules (python_api.c), loaded once."""
    number, real, address = ctypes.c_int, ctypes.c_double, ctypes.c_void_p
    long = ctypes.c_int64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "schedule_text": (ctypes.c_char_p, [number, number]),
        "schedule_columns": (ctypes.c_char_p, []),
        "schedule_open": (address, [number, number, *[address] * 4, real, real]),
        "schedule_rounds": (long, [address]),
        "schedule_scratch": (long, [address]),
        "schedule_steps": (long, [address, long, long, address, long]),
        "schedule_turns": (ctypes.c_bool, [address, number, *[address] * 3]),
        "schedule_traffic": (
            long,
            [address, number, long, number, number, *[address] * 3, long, address],
        ),
        "schedule_close": (None, [address]),
    }
    loaded = load_library("libmpiprof-schedule.so")
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


@cache
def load_catalogue() -> tuple[Algorithm, ...]:
    """Return every algorithm, in the catalogue's order."""
    loaded = load_schedules()
    entries = []
    for index in range(loaded.schedule_entries()):
        facts: list[Any] = [(loaded.schedule_text(index, i) or b"").decode() for i in range(6)]
        traits = loaded.schedule_traits(index)
        facts += [bool(traits & 1 << bit) for bit in range(3)]
        entries.append(Algorithm(index, *facts))
    return tuple(entries)


def find_all(operation: str, *, intercommunicator: bool = False) -> list[Algorithm]:
    """Return an operation's algorithms for one group, or for two, in the catalogue's order."""
    key = (operation, intercommunicator)
    return [a for a in load_catalogue() if (a.operation, a.intercommunicator) == key]


def find(operation: str, name: str, *, intercommunicator: bool = False) -> Algorithm:
    """Return an algorithm; raises MpiprofError with the existing names."""
    by_name = {a.name: a for a in find_all(operation, intercommunicator=intercommunicator)}
    if name not in by_name:
        names = ", ".join(by_name) or "none"
        raise MpiprofError(f"{operation} has no algorithm {name!r}: known are {names}")
    return by_name[name]


def applies_to_size(algorithm: Algorithm, size: int) -> bool:
    """Return whether an algorithm runs on `size` processes (and as many remote ones)."""
    remote = size if algorithm.intercommunicator else 0
    numbers = (ctypes.c_int64 * 11)(size, remote, 0, 8, 8 * (remote > 0), 8, 0, 0, 1)
    counts = (ctypes.c_int64 * size)(*[8] * size)
    arrays = (numbers, counts, counts, None)
    handle = load_schedules().schedule_open(algorithm.index, 0, *arrays, 1.0, 1.0)
    if handle:
        load_schedules().schedule_close(handle)
    return bool(handle)


def parse_parameters(algorithm: Algorithm) -> dict[str, tuple[str, ...]]:
    """Return an algorithm's parameters, each with its values, or BYTES or RANK."""
    words = (word.partition("=") for word in algorithm.parameters.split())
    return {name: tuple(values.split("|")) for name, _, values in words}
