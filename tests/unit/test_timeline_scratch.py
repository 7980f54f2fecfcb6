"""Scratch files of the timeline's preparation, against sorting in memory."""

from __future__ import annotations

import errno
import itertools
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dashboard.timeline import scratch
from dashboard.timeline.segments import BLOCK_SEGMENTS, BLOCKS, SEGMENT
from dashboard.timeline.tiles import _Density


@pytest.mark.parametrize("piece", [4 * BLOCK_SEGMENTS, 1 << 20])
def test_segments_return_by_rank_and_time_as_a_stable_sort_orders_them(
    monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """Rank 2 has more segments than a piece; rank 5 has none; many have equal times."""
    monkeypatch.setattr(scratch, "PIECE_SEGMENTS", piece)
    monkeypatch.setattr(scratch, "NEAR_NUMBERS", 8)
    random = np.random.default_rng(3)
    counts = [100, 129, 1500, 1, 400, 0, 300]
    ranks = random.permutation(np.repeat(np.arange(len(counts)), counts))
    segments = np.zeros(len(ranks), SEGMENT)
    segments["enter"] = random.integers(-50, 500, len(ranks))
    segments["instance"] = np.arange(len(ranks))
    with tempfile.TemporaryFile() as file, ThreadPoolExecutor(1) as pool:
        runs = scratch.SegmentRuns(file, len(counts), pool)
        for first in range(0, len(ranks), 70):
            space, ranks_of = runs.extend(min(70, len(ranks) - first))
            space[:], ranks_of[:] = segments[first : first + 70], ranks[first : first + 70]
        parts = list(runs.read_in_order())
    assert runs.counts.tolist() == counts
    order = np.lexsort((segments["enter"], ranks))
    assert np.array_equal(np.concatenate([of for _, of in parts]), ranks[order])
    assert np.array_equal(np.concatenate([of for of, _ in parts]), segments[order])
    for _, of in parts:  # a rank that continues in the next part has whole blocks
        assert len(of) <= piece or len(set(of.tolist())) == 1
    for (_, of), (_, next_of) in itertools.pairwise(parts):
        assert of[-1] != next_of[0] or len(of) % BLOCK_SEGMENTS == 0


def test_segments_without_any_rank_are_none() -> None:
    with tempfile.TemporaryFile() as file, ThreadPoolExecutor(1) as pool:
        assert not list(scratch.SegmentRuns(file, 4, pool).read_in_order())


def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that writes has the error; who adds or reads segments gets it."""

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(scratch.Scratch, "write", fail)
    with tempfile.TemporaryFile() as file, ThreadPoolExecutor(1) as pool:
        runs = scratch.SegmentRuns(file, 4, pool)
        _, ranks = runs.extend(10)
        ranks[:] = 0
        with pytest.raises(OSError, match="no space"):
            list(runs.read_in_order())


def test_begins_are_spread_over_their_blocks() -> None:
    """Two ranks begin at 1 call per 10 ns; blocks of 100 calls do not raise the count of a span."""
    begins = np.arange(0, 100_000, 1_000)
    blocks = np.zeros(2 * len(begins), BLOCKS)
    blocks["enter"], blocks["exit"] = np.tile(begins, 2), 10**6
    blocks["rank"], blocks["n"] = np.repeat([0, 1], len(begins)), 100
    blocks["exit"][[len(begins) - 1, -1]] = 100_000
    density = _Density(blocks, 0, 100_000)
    for begin, end in ((0, 100_000), (10_000, 90_000), (500, 800), (20_010, 20_090)):
        counted = density.count_before(end) - density.count_before(begin)
        assert counted == pytest.approx(2 * (end - begin) / 10, abs=8)
