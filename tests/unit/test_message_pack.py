"""Packed records of messages: every record comes back, and damaged bytes do no harm."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from support.interval_records import counters, interval, pressure
from support.message_traces import call, part

from mpiprof.interface.installation import load_library
from mpiprof.trace.message_unpack import PackedRecords
from mpiprof.trace.types import RECEIVED_PART, SENT_PART, Array
from mpiprof.trace.writer import RECORD_TYPE

CHUNK_ROOM = 65440


def pack(records: Array, room: int = CHUNK_ROOM) -> Array:
    """Return the packed bytes of records, as the recorder writes them into an empty chunk."""
    library = load_library("libmpiprof-delays.so")
    library.message_unpack_state_bytes.restype = ctypes.c_int64
    state = np.zeros(library.message_unpack_state_bytes(), np.uint8)
    content = np.full(room, 0xA5, np.uint8)
    function = library.message_unpack_reverse
    function.restype = ctypes.c_int64
    pointers = [ctypes.c_void_p(of.ctypes.data) for of in (state, records, content)]
    sizes = ctypes.c_int64(len(records)), ctypes.c_int64(room)
    length: int = function(*pointers[:2], sizes[0], pointers[2], sizes[1])
    assert length >= 0
    return content[:length]


def unpack(content: Array, room: int = 1 << 10) -> tuple[Array, bool]:
    packed = PackedRecords(content, room)
    found = [records.copy() for records in packed]
    return np.concatenate([np.zeros(0, RECORD_TYPE), *found]), packed.is_damaged


def make_halo(steps: int, neighbours: int = 4, tags: int = 1) -> Array:
    """Return the records of a halo exchange: receives and sends to neighbours, and a Waitall."""
    records, now = [], 10_000_000
    for step in range(steps):
        posted = []
        for kind, shape in ((RECEIVED_PART, 0), (SENT_PART, neighbours)):
            for n in range(neighbours):
                values = {"number": step, "tag": step % tags, "posted": now}
                records.append(
                    call(shape + n, now, now + 90, part(kind, shape + n, flags=0, **values))
                )
                posted.append(part(kind, shape + n, **values))
                now += 210 + step % 7
        records.append(call(2 * neighbours, now, now + 4000 + step % 100, *posted))
        now += 30_000 + step % 1000
    return np.concatenate(records)


def make_random(generator: np.random.Generator, count: int) -> Array:
    """Return records of random bytes, some of which repeat."""
    raw = generator.integers(0, 256, (count, RECORD_TYPE.itemsize), np.uint8)
    records = raw.view(RECORD_TYPE)[:, 0].copy()
    records["kind"] = generator.integers(0, 20, count)
    for name, values in (("shape", 5), ("outside_ns", 7), ("thread", 2), ("choice", 3)):
        few = generator.random(count) < 0.9
        records[name][few] = generator.integers(0, values, count)[few]
    return records


def test_the_records_of_a_program_come_back_in_few_bytes() -> None:
    records = make_halo(200)
    content = pack(records)
    restored, is_damaged = unpack(content)
    assert not is_damaged and np.array_equal(restored, records)
    calls = int((records["kind"] == 9).sum())
    assert len(content) < 12 * calls  # 32 bytes a record would be 98 a call


def test_new_tags_take_at_most_half_of_the_bytes() -> None:
    records = make_halo(100, tags=100)
    content = pack(records)
    assert np.array_equal(unpack(content)[0], records)
    assert len(content) < records.nbytes / 2


def test_intervals_with_their_counters_come_back() -> None:
    pieces = [interval(0, 0, 1000 * i, 1000 * i + 900, *counters(), pressure()) for i in range(99)]
    records = np.concatenate(pieces)
    assert np.array_equal(unpack(pack(records))[0], records)


@pytest.mark.parametrize("seed", range(20))
def test_random_records_come_back(seed: int) -> None:
    generator = np.random.default_rng(seed)
    records = make_random(generator, int(generator.integers(1, 1800)))
    restored, is_damaged = unpack(pack(records), int(generator.integers(1, 300)))
    assert not is_damaged and np.array_equal(restored, records)


def make_damaged(generator: np.random.Generator) -> Iterator[Array]:
    content = pack(make_halo(20))
    for _ in range(300):
        damaged = content[: generator.integers(1, len(content) + 1)].copy()
        at = generator.integers(0, len(damaged), generator.integers(1, 9))
        damaged[at] = generator.integers(0, 256, len(at))
        yield damaged
    for _ in range(300):
        yield generator.integers(0, 256, generator.integers(0, 3000)).astype(np.uint8)


def test_damaged_bytes_do_no_harm() -> None:
    """The records end within their room, and most damage is noticed."""
    noticed = 0
    for content in make_damaged(np.random.default_rng(1)):
        records, is_damaged = unpack(content, 64)
        assert len(records) <= len(content)
        noticed += is_damaged
    assert noticed > 100


def test_too_little_room_is_reported() -> None:
    with pytest.raises(AssertionError):
        pack(make_halo(10), 100)
