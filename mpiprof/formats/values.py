"""Serialises derived values as arrays and JSON, because reading a pickle may execute code."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.disagreement import Disagreement, Side
from mpiprof.account.rank_pairs import WaitMatrix
from mpiprof.account.run_times import RunTimes
from mpiprof.account.variance_components import Estimate
from mpiprof.causes.arrival_statistics import ArrivalStatistics
from mpiprof.causes.cause import Removal
from mpiprof.causes.finding import (
    CallsiteEvidence,
    Evidence,
    Finding,
    FoundReason,
    HabitEvidence,
    RestEvidence,
    WaitSite,
    WorkLocation,
)
from mpiprof.causes.place import Place
from mpiprof.causes.search import CAUSES
from mpiprof.formats.cache import CacheEntry, DamagedError, Writer
from mpiprof.trace.clock import Clock

EVIDENCE = (
    Place,
    CallsiteEvidence,
    Evidence,
    FoundReason,
    HabitEvidence,
    RestEvidence,
    WorkLocation,
)
TABLES = (
    *(ArrivalStatistics, Clock, Disagreement, Estimate, Finding, Removal, RunTimes),
    *(Side, WaitMatrix, WaitSite),
)
CLASSES = (*CAUSES, *EVIDENCE, *TABLES)
KINDS: dict[str, Any] = {kind.__name__: kind for kind in CLASSES}
TEXT = ("str", "string", "object")


class _Packer:
    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.count = 0

    def pack_array(self, values: Any) -> str:
        array = np.ascontiguousarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"an array of {array.dtype}")
        self.count += 1
        self.writer.write_array(f"a{self.count}", array)
        return f"a{self.count}"

    def pack(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.generic):
            return self.pack(value.item())
        if isinstance(value, list):
            return [self.pack(v) for v in value]
        if isinstance(value, tuple | frozenset):
            return {type(value).__name__: [self.pack(v) for v in value]}
        if isinstance(value, dict):
            return {"dict": [[self.pack(k), self.pack(v)] for k, v in value.items()]}
        if isinstance(value, np.ndarray):
            return {"array": self.pack_array(value)}
        if isinstance(value, pd.DataFrame):
            columns = [[str(name), self.pack_column(value[name])] for name in value.columns]
            return {"frame": [len(value), columns]}
        name = type(value).__name__
        if KINDS.get(name) is type(value):
            names = [f.name for f in dataclasses.fields(value)]
            return {"kind": [name, [[n, self.pack(getattr(value, n))] for n in names]]}
        raise TypeError(f"a value of {type(value)}")

    def pack_column(self, series: pd.Series[Any]) -> Any:
        dtype = series.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
            return {"plain": self.pack_array(series.to_numpy())}
        if isinstance(dtype, pd.CategoricalDtype):
            names = [self.pack(c) for c in series.cat.categories.tolist()]
            return {"category": [self.pack_array(series.cat.codes.to_numpy()), names]}
        if str(dtype) == "Int64":
            parts = (series.fillna(0).to_numpy(np.int64), series.isna().to_numpy())
            return {"nullable": [self.pack_array(part) for part in parts]}
        if str(dtype) in TEXT:
            return {"values": [str(dtype), [self.pack(v) for v in series.tolist()]]}
        raise TypeError(f"a column of {dtype}")


def write(value: Any, writer: Writer) -> dict[str, Any]:
    """Write a value into an entry and return its description; TypeError for unsupported types."""
    return {"value": _Packer(writer).pack(value)}


def read(entry: CacheEntry) -> Any:
    """Return the value of an entry; DamagedError if `write` cannot have written it."""
    try:
        return _unpack(entry, entry.meta["value"])
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise DamagedError(str(error)) from None


def _read_array(entry: CacheEntry, name: Any) -> Any:
    if entry.dtype(name).kind not in "biuf":
        raise DamagedError("an array of no numbers")
    return entry.read_array(name, entry.dtype(name))


def _unpack(entry: CacheEntry, packed: Any) -> Any:
    if isinstance(packed, list):
        return [_unpack(entry, v) for v in packed]
    if not isinstance(packed, dict):
        return packed
    ((tag, content),) = packed.items()
    if tag == "float":
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
    if tag == "tuple":
        return tuple(_unpack(entry, v) for v in content)
    if tag == "frozenset":
        return frozenset(_unpack(entry, v) for v in content)
    if tag == "dict":
        return {_unpack(entry, k): _unpack(entry, v) for k, v in content}
    if tag == "array":
        return _read_array(entry, content)
    if tag == "frame":
        rows, columns = content
        content_of = {str(n): _read_column(entry, c) for n, c in columns}
        return pd.DataFrame(content_of, index=range(rows)).reset_index(drop=True)
    if tag == "kind":
        name, fields = content
        return KINDS[name](**{k: _unpack(entry, v) for k, v in fields})
    raise DamagedError("a value of an unknown kind")


def _read_column(entry: CacheEntry, packed: dict[str, Any]) -> Any:
    ((tag, content),) = packed.items()
    if tag == "plain":
        return _read_array(entry, content)
    if tag == "category":
        codes, names = content
        return pd.Categorical.from_codes(_read_array(entry, codes), _unpack(entry, names))
    if tag == "nullable":
        values, missing = (_read_array(entry, name) for name in content)
        return pd.arrays.IntegerArray(values, missing)
    if tag == "values":
        dtype, values = content
        if dtype not in TEXT:
            raise DamagedError("a column of an unknown kind")
        column: Any = pd.Series(_unpack(entry, values), dtype=dtype)
        return column.array
    raise DamagedError("a column of an unknown kind")
