"""Calls of the C library for analyses: passes over all records whose order numpy cannot follow.

Source: core/python_api, without python_api.c. Its functions are named after their files.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from mpiprof.interface.installation import load_library


class Struct:
    """A C struct with fields of 64-bit integers and pointers, and the arrays that it points to.

    types: `int`, or the element type of an array, by field in the order of the struct.
    """

    def __init__(self, types: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        if types.keys() != values.keys():
            raise ValueError(
                f"fields {sorted(types.keys() ^ values.keys())} are missing or unknown"
            )
        self.arrays = {
            name: np.ascontiguousarray(values[name], dtype)
            for name, dtype in types.items()
            if dtype is not int
        }
        self.fields = np.array(
            [self.arrays[n].ctypes.data if n in self.arrays else values[n] for n in types], np.int64
        )


def call_library(function: str, *arguments: Any) -> None:
    """Call a function without a result: with structs, contiguous arrays and 64-bit integers."""
    _find_function(function)(*map(_convert, arguments))


@cache
def _find_function(name: str) -> Any:
    function = getattr(load_library("libmpiprof-delays.so"), name)
    function.restype = None
    return function


def _convert(argument: Any) -> Any:
    if isinstance(argument, Struct):
        argument = argument.fields
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return ctypes.c_int64(argument) if isinstance(argument, int) else argument
