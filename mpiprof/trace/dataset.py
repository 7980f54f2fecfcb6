"""Reads the instances of a trace from a Parquet data set, in independent partitions.

    dataset.json                               format, version, problems of the trace
    definitions/blocks.parquet                 one row per block, in the order of matching
    definitions/clocks.parquet, ...            tables that the calls refer to by number
    calls/communicator=C/part-N.parquet        partitions: blocks of one communicator
    messages/message_sums.parquet, ...         tables of messages, by the names of their properties
    intervals/intervals.parquet                the table of intervals

A block is a batch of instances and a row group of a partition. It has one row per member and
instance, member by member. No instance is in two blocks. The folder also has the trace's logs and
tables, which list the consecutive calls of each rank. formats/dataset.py writes the data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import MpiprofError, TraceError
from mpiprof.interface.installation import install_command
from mpiprof.interface.output_files import format_utf8_path
from mpiprof.interface.untrusted_files import read_json, require_regular
from mpiprof.interface.untrusted_text import clean_text
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.clock import Clock
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.types import Array
from mpiprof.trace.validation import check_flag, check_integer, check_list, check_object, check_text

FILE_NAME, FORMAT, VERSION = "dataset.json", "mpiprof dataset", 1
CALLS_FOLDER, DEFINITIONS_FOLDER = "calls", "definitions"
MESSAGES_FOLDER, INTERVALS_FOLDER = "messages", "intervals"
MAX_OPEN_FILES = 64  # partitions that remain open while blocks are read in order
# Exceptions that Arrow raises for damaged files, as bases of its own classes.
PARQUET_ERRORS = (OSError, ValueError, KeyError, IndexError, TypeError, NotImplementedError)

# Columns that only some blocks have; elsewhere they have default values.
OPTIONAL_COLUMNS = ("start", "begin_ns", "elapsed_ns", "sent", "received", "choice")
BEFORE_COLUMNS = {  # columns to fields of Before
    "before_enter_ns": "enter",
    "before_exit_ns": "exit",
    "before_shape": "shape",
    "before_sequence": "sequence",
    "outside_ns": "outside",
}


@dataclass(frozen=True)
class StoredBlock:
    """Location of a block, a row group of a partition."""

    number: int  # index in the order of matching
    communicator: int
    file: str
    row_group: int
    instances: int
    last_ns: int  # latest entry time of its calls
    holds: tuple[str, ...]  # optional columns
    whole: bool


class Dataset:
    """The Parquet files of a data set of some communicators; TraceError if they are unreadable."""

    def __init__(self, folder: Path, communicators: Sequence[Communicator]) -> None:
        self.folder, self.communicators = folder, communicators
        try:
            facts = check_object(read_json(folder / FILE_NAME))
            known = facts["format"], facts["version"]
            self.problems: list[str] = check_list(facts["problems"], check_text)
            self.damaged: set[str] = set(check_list(facts["damaged"], check_text))
        except OSError as error:
            raise TraceError(f"{folder / FILE_NAME}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError):
            raise TraceError(f"{folder / FILE_NAME}: damaged; export the data set again") from None
        if known != (FORMAT, VERSION):
            remedy = "update mpiprof to read it"
            raise TraceError(f"{folder / FILE_NAME}: written by a newer mpiprof; {remedy}")
        names = tuple(f.name for f in fields(StoredBlock))
        listed = folder / DEFINITIONS_FOLDER / "blocks.parquet"
        rows = self._read_table(listed, names)
        try:
            self.blocks = [self._parse_block(row) for row in rows]
        except ValueError:
            raise _damage_error(listed) from None

    def _parse_block(self, row: Mapping[str, Any]) -> StoredBlock:
        file = check_text(row["file"])
        # A link or a path may lead out of the data set.
        folder = (self.folder / file).parent.resolve()
        inside = (self.folder.resolve() / file).parent
        if ".." in Path(file).parts or Path(file).is_absolute() or folder != inside:
            raise ValueError("a file outside of the data set")
        return StoredBlock(
            check_integer(row["number"]),
            check_integer(row["communicator"], 0, len(self.communicators) - 1),
            file,
            check_integer(row["row_group"], 0),
            check_integer(row["instances"], 0),
            check_integer(row["last_ns"]),
            tuple(check_text(row["holds"]).split()),
            check_flag(row["whole"]),
        )

    def clocks(self) -> dict[str, Clock]:
        """Return the clock of each node, as fitted when the data set was written."""
        names = tuple(f.name for f in fields(Clock))
        path = self.folder / DEFINITIONS_FOLDER / "clocks.parquet"
        rows = self._read_table(path, ("node", *names))
        return {row["node"]: Clock(**{name: row[name] for name in names}) for row in rows}

    def read_columns(self, name: str) -> dict[str, Array] | None:
        """Return the columns of a table of messages or intervals; None if the data set has none."""
        path = find_table(self.folder, name)
        if not path.parent.is_dir():  # written by an older version
            return None
        with _open_parquet(path) as file, _reporting_damage(path):
            table = file.read().combine_chunks()
            return {column: _to_array(table.column(column)) for column in table.column_names}

    def partitions(self) -> list[list[StoredBlock]]:
        """Return the blocks of each partition, partitions in the order of their first blocks."""
        partitions: dict[str, list[StoredBlock]] = {}
        for block in self.blocks:
            partitions.setdefault(block.file, []).append(block)
        return list(partitions.values())

    def batches(
        self,
        before: bool = False,
        since_ns: int | None = None,
        until_ns: int | None = None,
        blocks: Sequence[StoredBlock] | None = None,
    ) -> Iterator[Batch]:
        """Yield all or some blocks as batches in their order (see Records.batches)."""
        reader = Reader(self, before)
        passed: set[int] = set()  # communicators whose further blocking calls are later
        for block in self.blocks if blocks is None else blocks:
            is_blocking = not {"start", "begin_ns"} & set(block.holds)
            if is_blocking and block.communicator in passed:
                continue
            if until_ns is not None and is_blocking and block.last_ns > until_ns:
                passed.add(block.communicator)
            if since_ns is None or block.last_ns >= since_ns:
                yield reader.read_batch(block)

    def _read_table(self, path: Path, names: Sequence[str]) -> list[dict[str, Any]]:
        with _open_parquet(path) as file, _reporting_damage(path):
            table = file.read(list(names)).to_pylist()
        rows = [{name: _clean_value(value) for name, value in row.items()} for row in table]
        if rows and set(rows[0]) != set(names):
            raise _damage_error(path)
        return rows


def find_table(folder: Path, name: str) -> Path:
    """Return the path of the table of intervals, or of a table of messages."""
    of = INTERVALS_FOLDER if name == "intervals" else MESSAGES_FOLDER
    return folder / of / f"{name}.parquet"


class Reader:
    """Reads blocks of a data set; `before`: whether to read each rank's previous record too."""

    def __init__(self, dataset: Dataset, before: bool = False) -> None:
        self.folder, self.communicators = dataset.folder, dataset.communicators
        self.before = before
        self.open_file = lru_cache(MAX_OPEN_FILES)(_open_parquet)

    def read_batch(self, block: StoredBlock) -> Batch:
        """Return a block as a batch (see Records.batches)."""
        communicator = self.communicators[block.communicator]
        names = ["sequence", "arrival_ns", "finish_ns", "shape", *block.holds]
        names += list(BEFORE_COLUMNS) if self.before else []
        size = (len(communicator.ranks), block.instances)
        path = self.folder / block.file
        file = self.open_file(path)
        with _reporting_damage(path):
            table = file.read_row_group(block.row_group, names, use_threads=False)
            columns: dict[str, Array] = {name: table.column(name).to_numpy() for name in names}
        if any(values.size != size[0] * size[1] for values in columns.values()):
            raise _damage_error(path)
        matrix = {name: values.reshape(size) for name, values in columns.items()}
        arrival_ns, exit_ns = matrix["arrival_ns"], matrix["finish_ns"]
        elapsed_ns = matrix.get("elapsed_ns")
        if elapsed_ns is None:
            elapsed_ns = exit_ns - arrival_ns
            if not block.whole:
                elapsed_ns[exit_ns == 0] = 0
        before = {of: matrix[name] for name, of in BEFORE_COLUMNS.items() if self.before}
        return Batch(
            communicator,
            matrix["sequence"][0],
            matrix["start"][0] if "start" in matrix else np.zeros(block.instances, np.int64),
            arrival_ns,
            matrix.get("begin_ns", arrival_ns),
            exit_ns,
            elapsed_ns,
            matrix["shape"],
            matrix.get("sent"),
            matrix.get("received"),
            block.whole,
            Before(**before) if self.before else None,
            matrix["choice"][0] if "choice" in matrix else None,
        )


def _clean_value(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _to_array(column: Any) -> Array:
    """Return a column as an array; texts are Python strings, each once."""
    if not hasattr(column.type, "index_type"):
        return np.asarray(column.to_numpy())
    chunks = column.chunks
    parts = [
        np.array([*map(_clean_value, chunk.dictionary.to_pylist())], object)[
            chunk.indices.to_numpy()
        ]
        for chunk in chunks
    ]
    return np.concatenate([np.zeros(0, object), *parts])


def _open_parquet(path: Path) -> Any:
    parquet, where = import_pyarrow()[1], format_utf8_path(path, "Parquet")
    try:
        require_regular(path)
    except FileNotFoundError:
        raise TraceError(f"{path}: missing; export the data set again") from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from None
    with _reporting_damage(path):
        return parquet.ParquetFile(where, page_checksum_verification=True)


@contextmanager
def _reporting_damage(path: Path) -> Iterator[None]:
    """Replace an error of Arrow by a TraceError on the file."""
    try:
        yield
    except PARQUET_ERRORS:
        raise _damage_error(path) from None


def _damage_error(path: Path) -> TraceError:
    return TraceError(f"{path}: damaged; export the data set again")


def import_pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet module; raises MpiprofError if they are missing."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MpiprofError(f"a data set requires pyarrow: {install_command('export')}") from None
    return pyarrow, parquet
