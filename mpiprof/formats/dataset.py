"""A trace as a data set: Parquet partitions of its instances, its definitions, and its trace files.

trace/dataset.py describes the layout and reads the data set. The trace files are copied first and
read from the copies, because a running job may write to the originals meanwhile.
"""

from __future__ import annotations

import json
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.formats.export_columns import CALL_COLUMNS, LOG_TABLES
from mpiprof.trace import Trace, dataset
from mpiprof.trace.batch import Batch
from mpiprof.trace.dataset import BEFORE_COLUMNS, StoredBlock
from mpiprof.trace.sites import describe_sites, label_site
from mpiprof.trace.types import Array

ROW_GROUP_CALLS = 1 << 20  # approximate number of calls in a partition
MAX_OPEN_FILES = 64  # maximum number of partitions that are open for writing
SMALL_COLUMNS = ("shape", "rank")  # 32 bits
# Columns with few distinct values; the other columns are stored as differences, which are small.
DICTIONARY_COLUMNS = (*SMALL_COLUMNS, "before_shape", "sent", "received", "choice")
DELTA_COLUMNS = tuple(name for name in CALL_COLUMNS if name not in DICTIONARY_COLUMNS)


def copy_trace_files(source: Path, folder: Path) -> None:
    """Copy the files of a trace folder, without derived data."""
    folder.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.name != dataset.FILE_NAME:
            shutil.copyfile(path, folder / path.name)


def write(
    folder: Path, trace: Trace, step: Callable[[int], None], batches: Iterable[Batch] | None = None
) -> int:
    """Add the data set to a trace's folder and return its number of calls.

    `step` is called with the number of calls written. batches: batches to write instead of the
    batches in the trace's logs.
    """
    problem_count = len(trace.problems)
    clocks = trace.clocks
    with _PartitionWriter(folder, trace) as partitions:
        for batch in trace.batches(before=True) if batches is None else batches:
            partitions.add(batch)
            step(batch.shape.size)
    names = [log.name for log in trace.logs.opened if log.damaged]
    tables = _definition_rows(trace)
    tables["clocks"] = [{"node": node, **asdict(clock)} for node, clock in clocks.items()]
    tables["blocks"] = [{**asdict(b), "holds": " ".join(b.holds)} for b in partitions.blocks]
    definitions = folder / dataset.DEFINITIONS_FOLDER
    definitions.mkdir()
    for name, rows in tables.items():
        _write_table(definitions / f"{name}.parquet", rows, DEFINITION_COLUMNS[name])
    for name, meanings in LOG_TABLES.items():
        path = dataset.find_table(folder, name)
        path.parent.mkdir(exist_ok=True)
        _write_log_table(path, trace.derive(name), meanings)
    facts = {
        "format": dataset.FORMAT,
        "version": dataset.VERSION,
        "calls": partitions.calls,
        "partitions": partitions.count,
        "problems": trace.problems[problem_count:],
        "damaged": names,
    }
    (folder / dataset.FILE_NAME).write_text(json.dumps(facts, indent=1) + "\n")
    return partitions.calls


class _PartitionWriter:
    """Writer of batches to partitions; the most recently used partitions stay open."""

    def __init__(self, folder: Path, trace: Trace) -> None:
        self.arrow, self.parquet = dataset.import_pyarrow()
        self.folder, self.trace = folder, trace
        self.schema = self._make_schema()
        self.open: OrderedDict[int, _Partition] = OrderedDict()
        self.blocks: list[StoredBlock] = []
        self.calls = self.count = 0

    def __enter__(self) -> _PartitionWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for partition in self.open.values():
            partition.writer.close()

    def _make_schema(self) -> Any:
        arrow = self.arrow
        types = dict.fromkeys(SMALL_COLUMNS, arrow.int32()) | {"choice": arrow.uint8()}
        fields = []
        for name, meaning in CALL_COLUMNS.items():
            kind, optional = types.get(name, arrow.int64()), name in dataset.OPTIONAL_COLUMNS
            fields.append(arrow.field(name, kind, optional, {"description": meaning}))
        return arrow.schema(fields)

    def add(self, batch: Batch) -> None:
        """Write a batch as the next block."""
        index = batch.communicator.index
        partition = self.open.pop(index) if index in self.open else self._open_partition(index)
        self.open[index] = partition
        columns = _batch_columns(batch)
        arrays = [
            self.arrow.array(columns[f.name].ravel(), f.type)
            if f.name in columns
            else self.arrow.nulls(batch.shape.size, f.type)
            for f in self.schema
        ]
        table = self.arrow.Table.from_arrays(arrays, schema=self.schema)
        partition.writer.write_table(table, row_group_size=batch.shape.size)
        holds = tuple(name for name in dataset.OPTIONAL_COLUMNS if name in columns)
        last = int(batch.arrival_ns.max())
        place = (len(self.blocks), index, partition.name, partition.groups, len(batch))
        self.blocks.append(StoredBlock(*place, last, holds, batch.complete))
        partition.groups += 1
        partition.calls += batch.shape.size
        self.calls += int((batch.shape >= 0).sum())
        if partition.calls >= ROW_GROUP_CALLS:
            self.open.pop(index).writer.close()

    def _open_partition(self, index: int) -> _Partition:
        while len(self.open) >= MAX_OPEN_FILES:
            self.open.popitem(last=False)[1].writer.close()
        name = f"{dataset.CALLS_FOLDER}/communicator={index}/part-{self.count:06d}.parquet"
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        writer = self.parquet.ParquetWriter(
            self.folder / name,
            self.schema,
            compression="zstd",
            use_dictionary=[*DICTIONARY_COLUMNS],
            column_encoding=dict.fromkeys(DELTA_COLUMNS, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
        )
        self.count += 1
        return _Partition(name, writer)


@dataclass
class _Partition:
    name: str
    writer: Any
    groups: int = 0
    calls: int = 0


def _batch_columns(batch: Batch) -> dict[str, Array]:
    """Return the columns of a batch, except columns without information."""
    size = batch.shape.shape

    def spread(values: Array) -> Array:
        return np.broadcast_to(values, size)

    columns: dict[str, Array] = {
        "sequence": spread(batch.sequence),
        "rank": spread(batch.communicator.ranks[:, None]),
        "arrival_ns": batch.arrival_ns,
        "finish_ns": batch.exit_ns,
        "shape": batch.shape,
    }
    if batch.start.any():
        columns["start"] = spread(batch.start)
    if batch.begin_ns is not batch.arrival_ns:
        columns |= {"begin_ns": batch.begin_ns, "elapsed_ns": batch.elapsed_ns}
    optional = {"sent": batch.sent, "received": batch.received}
    columns |= {name: values for name, values in optional.items() if values is not None}
    if batch.choice is not None:
        columns["choice"] = spread(batch.choice)
    assert batch.before is not None
    return columns | {name: getattr(batch.before, field) for name, field in BEFORE_COLUMNS.items()}


# ---- definitions

# Columns of each table. A column contains text unless COLUMN_TYPES names another Arrow type.
DEFINITION_COLUMNS = {
    "blocks": (
        *("number", "communicator", "file", "row_group", "instances", "last_ns"),
        *("holds", "whole"),
    ),
    "clocks": ("node", "origin_ns", "offset_ns", "drift", "error_ns"),
    "sites": ("site", "label", "frames"),
    "communicators": (
        *("communicator", "identity", "name", "how", "parent", "size", "inter", "local"),
        *("group", "rank"),
    ),
    "shapes": (
        *("shape", "operation", "communicator", "site", "root", "sent", "received"),
        *("algorithm", "flags", "type", "reduction"),
    ),
    "ranks": ("rank", "host", "node", "pid", "started_ns", "ended_ns", "end_reason"),
}
COLUMN_TYPES = {
    **dict.fromkeys(("rank", "shape", "site", "root", "communicator", "group", "size"), "int32"),
    **dict.fromkeys(("number", "instances", "last_ns", "sent", "received", "pid"), "int64"),
    **dict.fromkeys(("origin_ns", "offset_ns", "error_ns", "started_ns", "ended_ns"), "int64"),
    **dict.fromkeys(("whole", "inter", "local"), "bool"),
    "row_group": "int32",
    "drift": "float64",
}


def _definition_rows(trace: Trace) -> dict[str, list[dict[str, Any]]]:
    tables = trace.tables
    described = describe_sites(tables.sites, [[i] for i in range(len(tables.sites))])
    processes: Any = trace.processes.astype(object)
    return {
        "sites": [
            {"site": i, "label": label_site(d[0]), "frames": json.dumps(frames)}
            for i, (d, frames) in enumerate(zip(described, tables.sites, strict=True))
        ],
        "communicators": [
            {
                "communicator": c.index,
                "identity": c.identity,
                "name": tables.names.get(c.index),
                "how": c.origin,
                "parent": c.parent,
                "size": c.size,
                "inter": c.is_inter,
                "local": c.is_local,
                "group": number,
                "rank": rank,
            }
            for c in tables.communicators
            for number, group in enumerate(c.groups)
            for rank in group.tolist()
        ],
        "shapes": [
            {**asdict(shape), "shape": i, "flags": " ".join(shape.flags)}
            for i, shape in enumerate(tables.shapes)
        ],
        "ranks": processes.where(processes.notna(), None).to_dict("records"),
    }


def _write_table(path: Path, rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> None:
    arrow, parquet = dataset.import_pyarrow()
    types = {name: arrow.type_for_alias(COLUMN_TYPES.get(name, "string")) for name in columns}
    arrays = {name: arrow.array([row[name] for row in rows], kind) for name, kind in types.items()}
    parquet.write_table(arrow.table(arrays), path, compression="zstd", write_page_checksum=True)


def _write_log_table(path: Path, table: pd.DataFrame, meanings: Mapping[str, str]) -> None:
    """Write a table of messages or intervals; texts are dictionaries."""
    arrow, parquet = dataset.import_pyarrow()
    text = arrow.dictionary(arrow.int32(), arrow.string())
    arrays, fields = [], []
    for name in table.columns:
        values = table[name].to_numpy()
        array = arrow.array(values) if values.dtype.kind != "O" else arrow.array(values).cast(text)
        arrays.append(array)
        fields.append(arrow.field(name, array.type, metadata={"description": meanings[name]}))
    arrow_table = arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))
    parquet.write_table(
        arrow_table, path, ROW_GROUP_CALLS, compression="zstd", write_page_checksum=True
    )
