"""Packed traces: equal bytes, tables and problems; damage of a pack is detected."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import damage, reading
from support.dataset_traces import messaging
from support.export_trace import mixed
from support.jobs import run_verb
from support.synthetic import Synthetic

import mpiprof
from mpiprof.errors import TraceError
from mpiprof.formats import pack_writer
from mpiprof.hang.processes import BOOT_ID
from mpiprof.interface.installation import install_command
from mpiprof.trace import pack as format_
from mpiprof.trace import pack_codec
from mpiprof.trace.files import read_content
from mpiprof.trace.writer import RECORD_TYPE

pytestmark = [pytest.mark.heavy, pytest.mark.slow]

TABLES = ("processes", "events", "instances", "callsites", "rank_totals", "summary", "statistics",
          "message_sums", "message_calls", "messages")  # fmt: skip
OLD = time.time() - 1000


def aged(folder: Path) -> Path:
    """Return a folder without recent writes."""
    for path in folder.iterdir():
        os.utime(path, (OLD, OLD))
    return folder


def pack(folder: Path, threads: int = 3) -> Path:
    files = pack_writer.find_files(folder)
    path = pack_writer.write(folder, files, threads, lambda _: None)
    pack_writer.remove(files)
    return path


def all_of(folder: Path) -> dict[str, Any]:
    """Return everything in a trace, or the reason why it is unreadable."""
    try:
        trace = mpiprof.open(folder)
        found: dict[str, Any] = {name: getattr(trace, name) for name in TABLES}
    except TraceError as error:
        return {"error": str(error)}
    shown = (trace.is_complete, trace.clock_error_ns, trace.calls_start_ns, trace.duration_ns)
    return {**found, "spent": trace.spent, "facts": shown, "problems": list(trace.problems)}


def check_same(found: dict[str, Any], known: dict[str, Any]) -> None:
    assert found.keys() == known.keys(), (found.get("error"), known.get("error"))
    for name, value in known.items():
        if isinstance(value, pd.DataFrame):
            pd.testing.assert_frame_equal(found[name], value)
        else:
            assert found[name] == value


# ---- equality


def many(folder: Path) -> Path:
    """Write several chunks per rank: 4 ranks with 12,000 calls each."""
    folder.mkdir()
    reading.write(folder, 48_000, 4)
    return folder


@pytest.mark.parametrize("make", [mixed, damage.write, many, messaging])
@pytest.mark.parametrize("threads", [1, 10_000])  # 16 chunks per block, and one
def test_a_packed_trace_reads_as_before(make: Any, threads: int, tmp_path: Path) -> None:
    folder = make(tmp_path / "trace")
    known = all_of(folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    pack(folder, threads)
    assert sorted(p.name for p in folder.iterdir() if p.is_file()) == ["meta.json", "trace.pack"]
    check_same(all_of(folder), known)
    for member in format_.Pack(folder / "trace.pack").members:
        assert read_content(member) == files[member.name], member.name


def test_any_part_of_a_file_can_be_read(tmp_path: Path) -> None:
    folder = many(tmp_path / "trace")
    cut = (folder / "rank-000000.log").read_bytes()[:-1000]
    (folder / "rank-000000.log").write_bytes(cut)
    member = next(m for m in format_.Pack(pack(folder)).members if m.size == len(cut))
    choose = random.Random(1)
    for _ in range(300):
        offset, size = choose.randrange(len(cut) + 10), choose.choice([1, 64, 5000, 200_000])
        room = bytearray(size)
        got = member.read(memoryview(room), offset)
        assert bytes(room[:got]) == cut[offset : offset + size]


def test_damaged_and_incomplete_traces_stay_marked(tmp_path: Path) -> None:
    """Each damaged trace reports the same problems after packing."""
    whole, kinds = damage.write(tmp_path / "whole"), set()
    for number in range(60):
        folder = tmp_path / f"damaged-{number}"
        shutil.copytree(whole, folder)
        damage.damage(folder, np.random.default_rng((7, number)))
        known = all_of(folder)
        pack(folder)
        check_same(all_of(folder), known)
        kinds.add("error" if "error" in known else known["facts"][0])
    assert kinds >= {True, False}


@pytest.mark.parametrize("seed", range(5))
def test_columns_give_back_any_records(seed: int) -> None:
    """Including meaningless bytes: differences wrap around."""
    chance = np.random.default_rng(seed)
    bodies = chance.integers(0, 256, (3, 50 * RECORD_TYPE.itemsize), np.uint8)
    if seed % 2:
        bodies[chance.random(bodies.shape) < 0.9] = 0
    packed = b"".join(pack_codec.split_columns(bodies, RECORD_TYPE))
    np.testing.assert_array_equal(pack_codec.join_columns(packed, RECORD_TYPE, 3), bodies)


def test_what_is_not_time_costs_next_to_nothing(tmp_path: Path) -> None:
    """0.02 B per event, of 32: one block has 32,736 events."""
    synthetic = Synthetic(2)
    base = 10_000 * np.arange(1, 30_001)[:, None] + np.zeros((1, 2), np.int64)
    synthetic.add_collective("allreduce", base, base + 100, sent=8, received=8)
    members = format_.Pack(pack(synthetic.write(tmp_path / "trace"), 2)).members
    assert sum(sum(m.entry.lengths[3:]) for m in members) < 0.025 * 60_000


def test_two_bytes_of_chance_cost_two_bytes(tmp_path: Path) -> None:
    """If gaps and durations are random below 2^8 each, lossless compression needs two bytes."""
    synthetic, chance = Synthetic(2), np.random.default_rng(3)
    gaps, spans = (chance.integers(256, 512, (40_000, 2)) for _ in range(2))
    exits = np.cumsum(gaps + spans, axis=0)
    synthetic.add_collective("allreduce", exits - spans, exits)
    size = pack(synthetic.write(tmp_path / "trace"), 2).stat().st_size
    assert 2.0 <= size / 80_000 < 2.15


# ---- damage of a pack


def test_damage_of_a_pack_never_gives_other_numbers() -> None:
    counts, wrong = damage.run(range(150), 11, lambda _: None, packed=True)
    assert not wrong
    assert counts[damage.MARKED] > 10 and counts[damage.ERROR] > 10


def test_a_damaged_block_loses_only_its_chunks(tmp_path: Path) -> None:
    folder = many(tmp_path / "trace")
    whole = len(mpiprof.open(folder).events)
    path = pack(folder, 10_000)  # a chunk per block
    member = format_.Pack(path).members[1]
    content = bytearray(path.read_bytes())
    content[member.starts[4] + member.entry.lengths[4] // 2] ^= 1  # its second block
    path.write_bytes(content)
    trace = mpiprof.open(folder)
    assert len(trace.events) == whole - 2046
    assert not trace.is_complete
    assert "rank 1: a chunk has a wrong checksum and is ignored" in trace.problems


# ---- killed


def test_a_pack_that_fails_leaves_the_trace(tmp_path: Path) -> None:
    folder = many(tmp_path / "trace")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fails(_: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pack_writer.write(folder, pack_writer.find_files(folder), 4, fails)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_kill_before_the_files_are_removed(tmp_path: Path) -> None:
    folder = aged(many(tmp_path / "trace"))
    known = all_of(folder)
    pack_writer.write(folder, pack_writer.find_files(folder), 4, lambda _: None)
    (folder / "rank-000002.log").unlink()
    (folder / "trace.pack.1").write_bytes(b"a file of another's")
    check_same(all_of(folder), known)
    code, out, _ = run_verb("pack", folder)
    assert (code, "already packed" in out) == (0, True)
    left = {p.name for p in folder.iterdir() if p.is_file()}
    assert left == {"meta.json", "trace.pack", "trace.pack.1"}
    check_same(all_of(folder), known)


def test_kills_at_any_time(tmp_path: Path) -> None:
    """SIGKILL at twelve points of the command: the table stays the same, and no file remains."""
    folder = tmp_path / "trace"
    folder.mkdir()
    reading.write(folder, 1_500_000, 4)
    aged(folder)
    known = mpiprof.open(folder).callsites
    words = [sys.executable, "-m", "mpiprof", "pack", str(folder)]
    killed = 0
    for number in range(12):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1 + 0.04 * number)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        pd.testing.assert_frame_equal(mpiprof.open(folder).callsites, known)
    assert killed > 0
    assert subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode == 0
    left = sorted(p.name for p in folder.iterdir() if p.is_file())
    assert left == ["meta.json", "trace.pack"]
    pd.testing.assert_frame_equal(mpiprof.open(folder).callsites, known)


# ---- the command


def test_verbs_print_the_same_for_a_packed_trace(tmp_path: Path) -> None:
    folder = aged(mixed(tmp_path / "trace"))
    verbs = (
        *(("report", folder), ("report", folder, "--json"), ("report", folder, "--by", "rank")),
        *(("status", folder), ("tune", folder), ("compare", folder, folder)),
        ("export", folder, "--to", "csv", "-o", tmp_path / "t"),
    )
    before = [run_verb(*words) for words in verbs]
    code, out, err = run_verb("pack", folder)
    assert (code, err) == (0, "")
    assert "trace.pack: " in out and " in place of " in out and " in 8 files" in out
    assert "next: " in out
    assert [run_verb(*words) for words in verbs] == before
    code, out, _ = run_verb("pack", folder)
    assert (code, "already packed" in out) == (0, True)


def test_without_a_name_it_is_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aged(mixed(tmp_path / "mpiprof-one"))
    monkeypatch.chdir(tmp_path)
    assert run_verb("pack")[0] == 0
    assert run_verb("report")[0] == 0  # a packed trace is found, too


def unfinished(folder: Path, node: str, pid: int) -> Path:
    """Write a trace of a rank that has not ended."""
    synthetic = Synthetic(1)
    synthetic.add_collective("barrier", [[5_000]], [[9_000]])
    synthetic.write(folder)
    path = folder / "rank-000000.tables"
    lines = [line for line in path.read_text().splitlines() if '"end"' not in line]
    lines = [line for line in lines if '"process"' not in line]
    process = f'{{"rank": 0, "process": {{"node": "{node}", "pid": {pid}, "size": 1}}}}'
    path.write_text("\n".join([process, *lines]) + "\n")
    return folder


def test_a_running_job_is_refused(tmp_path: Path) -> None:
    here = BOOT_ID.read_text().strip()
    folder = aged(unfinished(tmp_path / "here", here, os.getpid()))
    code, out, err = run_verb("pack", folder)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"rank 0 is running (process {os.getpid()})" in err
    folder = unfinished(tmp_path / "elsewhere", "another-boot", 1)
    code, _, err = run_verb("pack", folder)
    assert (code, err.count("\n")) == (1, 1)
    assert "may still run on another machine" in err
    assert run_verb("pack", aged(folder))[0] == 0
    gone = subprocess.Popen(["true"])
    gone.wait()
    killed = unfinished(tmp_path / "killed", here, gone.pid)
    assert run_verb("pack", killed)[0] == 0
    assert not mpiprof.open(killed).is_complete


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["nowhere"], 2, "no such trace folder"),
        (["EMPTY"], 2, "no mpiprof trace in it"),
        (["FILE"], 2, "not a trace folder"),
        (["EMPTY", "EMPTY"], 2, "takes one trace, not 2"),
        (["--fast"], 2, "--fast"),
        (["GARBAGE"], 1, "trace.pack: damaged or truncated"),
        (["NEWER"], 1, "packed by a newer mpiprof"),
    ],
)
def test_bad_input_is_one_line(words: list[str], code: int, says: str, tmp_path: Path) -> None:
    from mpiprof.trace.checksum import add_checksum

    for name in ("EMPTY", "GARBAGE", "NEWER"):
        (tmp_path / name).mkdir()
    (tmp_path / "FILE").write_text("")
    (tmp_path / "GARBAGE" / "trace.pack").write_bytes(bytes(range(256)) * 9)
    newer = add_checksum(b'{"format": "mpiprof pack", "version": 2}') + b"\n"
    (tmp_path / "NEWER" / "trace.pack").write_bytes(newer)
    places = {name: str(tmp_path / name) for name in ("EMPTY", "FILE", "GARBAGE", "NEWER")}
    found, out, err = run_verb("pack", *(places.get(word, word) for word in words))
    assert (found, out, err.count("\n")) == (code, "", 1), err
    assert says in err


def test_without_the_package_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = aged(mixed(tmp_path / "trace"))
    monkeypatch.setitem(sys.modules, "compression", None)
    monkeypatch.setitem(sys.modules, "backports", None)
    format_.import_zstd.cache_clear()
    code, out, err = run_verb("pack", folder)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1 and install_command("pack") in err
    assert not (folder / "trace.pack").exists()
    format_.import_zstd.cache_clear()
