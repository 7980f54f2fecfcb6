"""Workers' results wait until all earlier results are merged, so few results may be waiting."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mpiprof.account import batch_map
from mpiprof.trace.dataset import StoredBlock

COMMUNICATORS, ROUNDS = 20, 300


@pytest.mark.parametrize("span", [1, 64, 1_000, 10**6])
def test_few_blocks_wait_for_those_before(span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many communicators with few calls each, in alternating blocks."""
    monkeypatch.setattr(batch_map, "MAX_BLOCKS_PER_PIECE", span, raising=False)
    numbers = range(COMMUNICATORS * ROUNDS)
    of: list[list[StoredBlock]] = [[] for _ in range(COMMUNICATORS)]
    for number in numbers:
        place = number % COMMUNICATORS
        of[place].append(
            StoredBlock(number, place, f"{place}", len(of[place]), 10, 0, (), whole=True)
        )
    trace: Any = SimpleNamespace(
        tables=SimpleNamespace(communicators=[SimpleNamespace(ranks=[0, 1])] * COMMUNICATORS)
    )
    pieces = [piece for blocks in of for piece in batch_map._split_pieces(trace, blocks, 1 << 18)]
    pieces.sort(key=lambda piece: piece[0].number)
    taken = given = most = 0

    def sent() -> Iterator[list[batch_map._BlockResult]]:
        nonlocal taken
        for piece in pieces:
            taken += len(piece)
            yield [batch_map._BlockResult(block.number, None, [], [], []) for block in piece]

    for one in batch_map._order_results(sent()):
        assert one.number == given
        most = max(most, taken - given)
        given += 1
    assert given == len(numbers)
    assert most <= min(span, len(numbers)) + 1


@pytest.mark.parametrize(
    ("calls", "threads", "piece"),
    [
        (10**6, 2, 1 << 18),  # small, but not split further
        (10**7, 2, 10**7 // 32),  # 16 pieces per thread
        (10**9, 2, 1 << 21),  # each piece costs time, and occupies memory
        (10**9, 1000, 1 << 18),
        (0, 0, 1 << 18),  # workers may come later
    ],
)
def test_the_more_calls_the_larger_pieces(calls: int, threads: int, piece: int) -> None:
    blocks = [StoredBlock(0, 0, "0", 0, calls // 2, 0, (), whole=True)]
    trace: Any = SimpleNamespace(
        tables=SimpleNamespace(communicators=[SimpleNamespace(ranks=[0, 1])]),
        dataset=SimpleNamespace(blocks=blocks),
    )
    assert batch_map._calls_per_piece(trace, threads) == piece
