"""Data sets: the partitions contain the same as the trace, bit for bit."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet
from support.dataset_traces import MADE, bits, exported
from support.jobs import run_verb

import mpiprof
from mpiprof.errors import TraceError
from mpiprof.formats import export_columns
from mpiprof.trace import Trace, dataset
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.dataset import BEFORE_COLUMNS, OPTIONAL_COLUMNS

pytestmark = pytest.mark.heavy

DERIVED = ("processes", "events", "instances", "callsites", "rank_totals", "spent", "run_times",
           "summary", "summed_up", "statistics", "hot", "waiting_for", "message_sums",
           "message_calls", "messages", "intervals")  # fmt: skip


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Return a trace of each kind, and its data set."""
    base = tmp_path_factory.mktemp("dataset")
    return {name: exported(make, base / name) for name, make in MADE.items()}


@pytest.mark.parametrize("kind", MADE)
def test_tables_are_the_same_bit_for_bit(
    kind: str, pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    from_trace, from_set = (mpiprof.open(path) for path in pairs[kind])
    for name in DERIVED:
        a, b = (trace.derive(name) for trace in (from_trace, from_set))
        assert bits(a, tmp_path) == bits(b, tmp_path), name
    sites = range(len(from_trace.callsites))
    for name in ("phases", "conclusions", "arrival_statistics", "matrix", "matrix_ranks"):
        for site in sites:
            a, b = (trace.derive(name, site) for trace in (from_trace, from_set))
            assert bits(a, tmp_path) == bits(b, tmp_path), (name, site)
    a, b = (trace.series(list(sites)) for trace in (from_trace, from_set))
    assert bits(a, tmp_path) == bits(b, tmp_path)
    assert from_trace.point_to_point.tolist() == from_set.point_to_point.tolist()
    assert from_trace.clocks == from_set.clocks
    assert from_trace.problems == from_set.problems
    assert (from_trace.is_sound, from_trace.is_complete) == (
        from_set.is_sound,
        from_set.is_complete,
    )


@pytest.mark.parametrize("kind", MADE)
def test_blocks_are_the_batches_of_the_trace(
    kind: str, pairs: dict[str, tuple[Path, Path]]
) -> None:
    """Including the memory order, on which the sums of floats depend."""
    ours, theirs = (
        list(Trace(path).batches(batch=1 << 21, before=True, since_ns=since))
        for path, since in zip(pairs[kind], (None, -(1 << 62)), strict=True)
    )
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.communicator.identity == b.communicator.identity
        assert (a.begin_ns is a.arrival_ns, a.complete) == (b.begin_ns is b.arrival_ns, b.complete)
        assert a.before is not None
        assert b.before is not None
        both: list[Any] = [
            (a, b, f.name) for f in fields(Batch) if f.name not in ("communicator", "before")
        ]
        both += [(a.before, b.before, f.name) for f in fields(Before)]
        for one, other, name in both:
            x, y = getattr(one, name), getattr(other, name)
            if isinstance(x, np.ndarray):
                assert x.flags.c_contiguous, name
                assert y.flags.c_contiguous, name
                assert (x.dtype, x.shape) == (y.dtype, y.shape), name
                assert (x == y).all(), name
            else:
                assert (x is None) == (y is None), name


def test_no_instance_is_in_two_partitions(pairs: dict[str, tuple[Path, Path]]) -> None:
    """So partitions need no merging; and each member has its row."""
    dataset = mpiprof.open(pairs["several"][1]).dataset
    assert dataset is not None
    assert len(dataset.blocks) == 5
    owner: dict[tuple[int, int], str] = {}
    for blocks in dataset.partitions():
        assert len({block.communicator for block in blocks}) == 1
        frame = pd.read_parquet(dataset.folder / blocks[0].file)
        for sequence, count in frame["sequence"].value_counts().items():
            key = (blocks[0].communicator, int(str(sequence)))
            assert owner.setdefault(key, blocks[0].file) == blocks[0].file
            assert count in (2, 3, 5)
    assert len(owner) == len(mpiprof.open(pairs["several"][0]).instances)


@pytest.mark.parametrize("kind", ["drifting", "messaging"])
def test_verbs_print_the_same(
    kind: str, pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    folder, to = pairs[kind]
    for words in (
        ("report",),
        ("report", "--json"),
        ("report", "--by", "rank"),
        ("report", "--site", "allreduce", "--json"),
    ):
        ours, theirs = (run_verb(*words, path) for path in (folder, to))
        assert ours[0] == theirs[0] == 0, (words, theirs[2])
        assert ours[1] == theirs[1].replace(str(to), str(folder)), words
    plans = []
    for path in (folder, to):
        code, out, err = run_verb("tune", path, "--json", "-o", tmp_path / "plan.json")
        assert code == 0, err
        plans.append(out.replace(str(path), "TRACE"))
    assert plans[0] == plans[1]
    first, second = (run_verb("compare", folder, other, "--json") for other in (folder, to))
    assert first[0] == second[0] == 0, second[2]
    assert first[1] == second[1].replace(str(to), str(folder))


def test_others_can_read_messages_and_intervals(pairs: dict[str, tuple[Path, Path]]) -> None:
    folder, to = pairs["messaging"]
    trace = mpiprof.open(folder)
    for name, meanings in export_columns.LOG_TABLES.items():
        known = trace.derive(name)
        found = pd.read_parquet(dataset.find_table(to, name))
        assert list(found.columns) == list(known.columns) == list(meanings)
        assert len(known) > 30 or name == "local_sums"  # its calls are those on windows, files etc.
        for column in known:
            assert found[column].tolist() == known[column].tolist(), (name, column)


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_tables_of_messages_and_intervals_are_exported(
    to: str, pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    trace, name = mpiprof.open(pairs["messaging"][0]), tmp_path / "tables"
    assert run_verb("export", trace.path, "--to", to, "-o", name)[0] == 0
    read = pd.read_csv if to == "csv" else pd.read_parquet
    for table in export_columns.EXPORTED_TABLES:
        known = trace.derive(table)
        if not len(known):  # without calls on windows, files etc.
            assert table == "local_sums"
            continue
        found = read(f"{name}-{table}.{to}").fillna("")
        assert list(found.columns) == list(known.columns)
        for column in known:
            assert found[column].tolist() == known[column].tolist(), (table, column)
    assert run_verb("export", pairs["inter"][0], "--to", to, "-o", tmp_path / "none")[0] == 0
    assert len(list(tmp_path.glob("none-*"))) == 2


def test_a_data_set_without_tables_of_messages_is_read(
    pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    """As an older version has written it: the logs have the messages."""
    folder, to = pairs["messaging"]
    old = shutil.copytree(to, tmp_path / "old")
    for name in ("messages", "intervals"):
        shutil.rmtree(old / name)
    known, found = mpiprof.open(folder), mpiprof.open(old)
    pd.testing.assert_frame_equal(found.messages, known.messages)
    pd.testing.assert_frame_equal(found.intervals, known.intervals)


def test_an_instance_is_found_from_its_time_on(pairs: dict[str, tuple[Path, Path]]) -> None:
    from mpiprof.account.rank_totals import read_instance

    ours, theirs = (mpiprof.open(path) for path in pairs["several"])
    for row in ours.instances.iloc[[0, 8_900, -1]].to_dict("records"):
        named = (row["communicator"], row["sequence"], row["start"])
        a, b = (read_instance(t, *named, row["first_arrival_ns"]) for t in (ours, theirs))
        for name in ("ranks", "arrival", "finish", "wait"):
            assert getattr(a, name).tolist() == getattr(b, name).tolist()


def test_others_can_read_it(pairs: dict[str, tuple[Path, Path]]) -> None:
    """The columns are the documented ones, and definitions name them."""
    folder, to = pairs["mixed"]
    calls = pd.read_parquet(to / "calls")
    assert list(calls.columns) == [*export_columns.CALL_COLUMNS, "communicator"]
    assert {*OPTIONAL_COLUMNS, *BEFORE_COLUMNS} < set(export_columns.CALL_COLUMNS)
    shapes = pd.read_parquet(to / "definitions" / "shapes.parquet").set_index("shape")
    there = calls[calls["shape"] >= 0]
    found = there["shape"].map(shapes["operation"]).value_counts().to_dict()
    assert found == {
        "allreduce": 120,
        "bcast": 120,
        "ibarrier": 120,
        "allgather": 60,
        "allreduce_init": 8,  # 4 of them are starts
        "barrier": 3,
    }
    ranks = pd.read_parquet(to / "definitions" / "ranks.parquet")
    assert ranks["host"].tolist() == ["n0", "n0", "n1", "n1"]
    known = mpiprof.open(folder).tables.communicators
    members = pd.read_parquet(to / "definitions" / "communicators.parquet")
    for communicator in known:
        mine: Any = members[members["communicator"] == communicator.index]
        assert mine["rank"].tolist() == communicator.ranks.tolist()


def test_the_example_of_the_documentation(
    pairs: dict[str, tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It returns the imbalance of each instance."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "dataset.md"
    example = page.read_text("utf-8").split("```python\n")[1].split("```")[0]
    folder, to = pairs["several"]
    (tmp_path / "DIR").symlink_to(to)
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(example, made)
    trace = mpiprof.open(folder)
    number = {c.identity: c.index for c in trace.tables.communicators}
    known = {
        (number[row["communicator"]], row["sequence"]): row["worst_imbalance_ns"]
        for row in trace.instances.to_dict("records")
    }
    assert len(known) > 10_000
    assert made["spread"].to_dict() == known


def test_damage_is_reported(pairs: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    whole = pairs["inter"][1]
    part = next((whole / "calls").rglob("*.parquet")).relative_to(whole)
    for name, content, reported in (
        (str(part), None, "missing"),
        (str(part), b"PAR1 and nothing else", "damaged"),
        ("definitions/blocks.parquet", b"", "damaged"),
        ("dataset.json", b"{}", "damaged"),
        ("dataset.json", b'{"format":"x","version":9,"problems":[],"damaged":[]}', "newer"),
    ):
        folder = tmp_path / "set"
        shutil.copytree(whole, folder)
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)
        with pytest.raises(TraceError, match=reported):
            _ = mpiprof.open(folder).callsites
        code, out, err = run_verb("report", folder)
        assert (code, out, err.count("\n")) == (1, "", 1)
        shutil.rmtree(folder)


def test_a_changed_byte_is_found(pairs: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    """Pages have checksums.

    Here the last bytes of columns change, which are in their last pages.
    """
    whole = pairs["inter"][1]
    name = next((whole / "calls").rglob("*.parquet")).relative_to(whole)
    group = parquet.ParquetFile(whole / name).metadata.row_group(0)
    folder = shutil.copytree(whole, tmp_path / "set")
    content = (whole / name).read_bytes()
    looked_at = 0
    for column in map(group.column, range(group.num_columns)):
        if column.path_in_schema in ("sequence", "arrival_ns", "finish_ns", "shape"):
            begin = column.dictionary_page_offset or column.data_page_offset
            at = begin + column.total_compressed_size - 2
            (folder / name).write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
            with pytest.raises(TraceError, match="damaged"):
                _ = mpiprof.open(folder).callsites
            looked_at += 1
    assert looked_at == 4


def test_a_damaged_end_is_reported_independently_of_arrow(
    pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    """A file's footer has no checksum; one changed bit for each type of error that it causes."""
    folder = shutil.copytree(pairs["inter"][1], tmp_path / "set")
    path = folder / "definitions/blocks.parquet"
    content = path.read_bytes()
    found: dict[type[BaseException], bytes] = {}
    for place in range(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), len(content)):
        for bit in (4, 64):
            changed = content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
            try:
                parquet.ParquetFile(pyarrow.BufferReader(changed))
            except Exception as error:
                found.setdefault(type(error), changed)
    assert len(found) > 1
    for changed in found.values():
        path.write_bytes(changed)
        with pytest.raises(TraceError, match="damaged"):
            _ = mpiprof.open(folder).callsites


@pytest.mark.parametrize("number", [-1, 99])
def test_a_block_of_an_unknown_communicator_is_reported(
    number: int, pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    """Here and in workers; the verb assigns pieces to workers by the sizes of communicators."""
    folder = shutil.copytree(pairs["inter"][1], tmp_path / "set")
    path = folder / "definitions/blocks.parquet"
    table = parquet.read_table(path)
    place = table.column_names.index("communicator")
    changed = pyarrow.array([number] * len(table), table.schema.field(place).type)
    parquet.write_table(table.set_column(place, "communicator", changed), path)
    for words in (["report", folder], ["report", folder, "--dask", "local:1"]):
        code, out, err = run_verb(*words)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "blocks.parquet: damaged" in err


def test_its_logs_can_be_packed(pairs: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    folder, whole = pairs["talking"]
    to = shutil.copytree(whole, tmp_path / "set")
    old = time.time() - 1000
    for path in to.iterdir():
        os.utime(path, (old, old))
    known = mpiprof.open(folder)
    assert run_verb("pack", to)[0] == 0
    assert not list(to.glob("*.log"))
    again = tmp_path / "again"
    assert run_verb("export", to, "--to", "dataset", "-o", again)[0] == 0
    for path in (to, again):
        trace = mpiprof.open(path)
        for name in ("callsites", "rank_totals", "events"):
            assert bits(trace.derive(name), tmp_path) == bits(known.derive(name), tmp_path)
