"""The catalogue of algorithms, read from the C core. Needs no numpy, because `run` reads it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

from mpiprof.errors import MpiprofError
from mpiprof.launch.library import load_library

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
    needs_counts: bool = False


@cache
def load_schedules() -> ctypes.CDLL:
    """Return the C library of schedules, loaded once."""
    loaded = load_library("libmpiprof-schedule.so")
    loaded.schedule_text.restype = ctypes.c_char_p
    loaded.schedule_columns.restype = ctypes.c_char_p
    loaded.schedule_open.restype = ctypes.c_void_p
    loaded.schedule_open.argtypes = [
        ctypes.c_int,
        ctypes.c_int,
        *[ctypes.c_void_p] * 4,
        ctypes.c_double,
        ctypes.c_double,
    ]
    for function in (loaded.schedule_rounds, loaded.schedule_scratch):
        function.restype = ctypes.c_int64
        function.argtypes = [ctypes.c_void_p]
    loaded.schedule_steps.restype = ctypes.c_int64
    loaded.schedule_steps.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_int64,
    ]
    loaded.schedule_close.argtypes = [ctypes.c_void_p]
    return loaded


@cache
def load_catalogue() -> tuple[Algorithm, ...]:
    """Return every algorithm, in the catalogue's order."""
    loaded = load_schedules()
    entries = []
    for index in range(loaded.schedule_entries()):
        operation, name, restrictions, cost, parameters, source = (
            (loaded.schedule_text(index, which) or b"").decode() for which in range(6)
        )
        traits = loaded.schedule_traits(index)
        entries.append(
            Algorithm(
                index,
                operation,
                name,
                restrictions,
                cost,
                parameters,
                source,
                bool(traits & 1),
                bool(traits & 2),
                bool(traits & 4),
            )
        )
    return tuple(entries)


def find(operation: str, name: str, *, intercommunicator: bool = False) -> Algorithm:
    """Return an algorithm; raises MpiprofError with the existing names."""
    named = {
        a.name: a
        for a in load_catalogue()
        if a.operation == operation and a.intercommunicator == intercommunicator
    }
    if name not in named:
        names = ", ".join(named) or "none"
        raise MpiprofError(f"{operation} has no algorithm {name!r}: known are {names}")
    return named[name]


def applies_to_size(algorithm: Algorithm, size: int) -> bool:
    """Return whether an algorithm runs on `size` processes (and as many remote ones)."""
    remote = size if algorithm.intercommunicator else 0
    numbers = (ctypes.c_int64 * 11)(size, remote, 0, 8, 8 * (remote > 0), 8, 0, 0, 1)
    counts = (ctypes.c_int64 * size)(*[8] * size)
    handle = load_schedules().schedule_open(
        algorithm.index, 0, numbers, counts, counts, None, 1.0, 1.0
    )
    if handle:
        load_schedules().schedule_close(handle)
    return bool(handle)


def parse_parameters(algorithm: Algorithm) -> dict[str, tuple[str, ...]]:
    """Return an algorithm's parameters, each with its values, or BYTES or RANK."""
    found: dict[str, tuple[str, ...]] = {}
    for word in algorithm.parameters.split():
        name, _, values = word.partition("=")
        found[name] = tuple(values.split("|"))
    return found
