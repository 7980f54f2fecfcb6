"""A trace as Parquet: the tables of formats/export_columns.py, one file each.

Each piece becomes a row group, and texts are dictionaries. The schema's metadata describes the run,
and each field's metadata describes its column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from mpiprof.errors import MpiprofError
from mpiprof.interface.installation import install_command
from mpiprof.interface.output_files import format_utf8_path

ROW_GROUP = 1 << 20


def write(
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
