"""A trace as Parquet or CSV: the tables of formats/export_columns.py, one file each.

In Parquet, each piece becomes a row group, and texts are dictionaries. The schema's metadata
describes the run, and each field's metadata describes its column. In CSV, missing values are empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from mpiprof.errors import MpiprofError
from mpiprof.interface.installation import install_command
from mpiprof.interface.output_files import format_utf8_path
from mpiprof.interface.spreadsheet_cells import protect_cell

ROW_GROUP = 1 << 20


def write_parquet(
    path: Path,
    pieces: Iterable[pd.DataFrame],
    meanings: Mapping[str, str],
    facts: Mapping[str, Any],
    step: Callable[[pd.DataFrame], None],
) -> int:
    """Write a table and return its number of rows; `step` is called with each written piece.

    Raises MpiprofError if pyarrow is missing.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        remedy = f"{install_command('export')}, or use --to csv"
        raise MpiprofError(f"Parquet requires pyarrow: {remedy}") from None
    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    rows, writer, where = 0, None, format_utf8_path(path, "Parquet")
    try:
        for piece in pieces:
            if writer is None:
                inferred_schema = pyarrow.Schema.from_pandas(piece, preserve_index=False)
                fields = []
                for f in inferred_schema:
                    field_type = text if pyarrow.types.is_dictionary(f.type) else f.type
                    meaning = {"description": meanings[f.name]}
                    fields.append(pyarrow.field(f.name, field_type, metadata=meaning))
                metadata = {**inferred_schema.metadata, b"mpiprof": json.dumps(facts).encode()}
                schema = pyarrow.schema(fields, metadata)
                writer = parquet.ParquetWriter(where, schema, compression="zstd")
            writer.write_table(pyarrow.Table.from_pandas(piece, schema), ROW_GROUP)
            rows += len(piece)
            step(piece)
    finally:
        if writer is not None:
            writer.close()
    return rows


def write_csv(
    path: Path, pieces: Iterable[pd.DataFrame], step: Callable[[pd.DataFrame], None]
) -> int:
    """Write a table and return its number of rows; `step` is called with each written piece."""
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for i, piece in enumerate(pieces):
            _protect_texts(piece).to_csv(file, index=False, header=i == 0)
            rows += len(piece)
            step(piece)
    return rows


def _protect_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts no spreadsheet evaluates."""
    texts = [
        name
        for name in table
        if not (is_numeric_dtype(table[name]) or is_bool_dtype(table[name].dtype))
    ]
    return table.assign(**{str(name): _protect_column(table[name]) for name in texts})


def _protect_column(column: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.rename_categories(protect_cell)
    return column.map(protect_cell)
