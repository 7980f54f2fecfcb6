"""Rounds and block sizes of rings and pipelines: the papers' formulas.

Source: Träff et al. 2009, for irregular allgathers. p processes contribute m_i bytes, m in total,
in blocks of at most B bytes. z processes contribute none.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DEFAULT_BLOCK_SIZE = 32768  # block size if neither it nor alpha and beta are given

MAX_CANDIDATES = 4096  # block sizes times processes

Counts = Sequence[int] | NDArray[np.int64]


def ceil_log2(size: int) -> int:
    """Return ceil(lg p), the minimum number of rounds of a broadcast, gather or barrier."""
    return (size - 1).bit_length()


# ---- pipelined ring


def count_blocks(counts: Counts, block_size: int) -> NDArray[np.int64]:
    """Return ceil(m_i / B), the number of non-empty blocks of each process."""
    return -(-np.asarray(counts, np.int64) // block_size)


def count_skipping_ring_rounds(counts: Counts, block_size: int) -> int:
    """Return the exact number of rounds for counts in ring order, if empty blocks are not sent."""
    blocks = count_blocks(counts, block_size)
    size, total = len(blocks), int(blocks.sum())
    if size == 1 or not total:
        return 0
    # Message k leaves a process in round k + d. d is the maximum of h - (blocks of the last h
    # processes including this one) over all h with at most k such blocks. It is the time that the
    # message spends in processes without own blocks to send meanwhile.
    blocks_twice = np.concatenate([blocks, blocks]).tolist()
    filled = np.flatnonzero(blocks_twice)
    following = filled[np.searchsorted(filled, np.arange(size + 1))].tolist()
    # ahead[j] = j - (blocks of the processes before j). d is `ahead` at the end minus `ahead` at
    # the begin of a run of processes. So the minimum over the possible begins is required.
    ahead = [0, *np.cumsum(1 - np.concatenate([blocks, blocks])).tolist()]
    smallest: deque[int] = deque()
    rounds, added = 0, 0
    for receiver in range(size, 2 * size):
        count = total - blocks_twice[receiver]
        # The run must exclude the receiver and at least one process with data.
        first = following[receiver - size + 1]
        for begin in range(max(added, first + 1), receiver + 1):
            while smallest and ahead[smallest[-1]] >= ahead[begin]:
                smallest.pop()
            smallest.append(begin)
            added = begin + 1
        while smallest and smallest[0] <= first:
            smallest.popleft()
        late = ahead[receiver] - ahead[smallest[0]] if smallest else 0
        if count:
            rounds = max(rounds, count + max(0, late))
    return rounds


def pipeline_block_size(
    total: int, extra_rounds: float, alpha: float, beta: float, largest: int
) -> int:
    """Return the B that minimises (m / B + more)(alpha + beta B), at most `largest`."""
    block = DEFAULT_BLOCK_SIZE
    if extra_rounds <= 0:
        block = largest
    elif alpha > 0 and beta > 0:
        block = math.isqrt(int(min(total * alpha / (beta * extra_rounds), 2.0**62)))
    return max(1, min(block, largest))


def ring_block_size(counts: Counts, alpha: float, beta: float, *, corrected: bool = False) -> int:
    """Return the pipelined ring's block size, by the three cases of Section 2.4.

    Formula (2) has (p + z)/2 where the number of rounds before it has (p - z)/2. `corrected` is the
    latter.
    """
    sizes = np.asarray(counts, np.int64)
    size, total, largest = len(sizes), int(sizes.sum()), int(sizes.max())
    empty = int(np.count_nonzero(sizes == 0))
    if not total:
        return 1
    if largest == int(sizes.min()):
        return largest
    if empty == size - 1:
        return pipeline_block_size(total, size - 2, alpha, beta, largest)
    rounded_up = (size - empty if corrected else size + empty) / 2
    extra_rounds = rounded_up - 1 + empty // (size - empty)
    return pipeline_block_size(total, extra_rounds, alpha, beta, largest)


def best_ring_block(counts: Counts, alpha: float, beta: float) -> int:
    """Return the B that minimises exact rounds times (alpha + B beta), for counts in ring order."""
    # Formula (2) takes half of the last blocks as full, whatever the counts. Here B goes down
    # through the sizes that are the least for their numbers of blocks, until the bytes' start-ups
    # alone take longer than the best. If these are too many, the result is the best so far, that of
    # (2) included. The ring uses this size by default (core/schedule/algorithms/ring_block.c).
    sizes = np.asarray(counts, np.int64)
    filled, total = np.unique(sizes[sizes > 0]), int(sizes.sum())
    best = ring_block_size(sizes, alpha, beta)
    if not total or alpha <= 0 or beta <= 0 or sizes.max() == sizes.min():
        return best
    best_time = count_skipping_ring_rounds(sizes, best) * (alpha + best * beta)
    block = int(filled[-1])
    for _ in range(max(1, MAX_CANDIDATES // len(sizes))):
        block = int((-(-filled // count_blocks(filled, block))).max())
        if block < 1 or (total - int(filled[-1])) / block * alpha > best_time:
            break
        duration = count_skipping_ring_rounds(sizes, block) * (alpha + block * beta)
        if duration < best_time:
            best, best_time = block, duration
        block -= 1
        if block < 1:
            break
    return best


# ---- order of the processes in the ring


def _interleave(items: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    full = [item for item in items if item[0]]
    empty = [item for item in items if not item[0]]
    if not full:
        return items
    edges = [i * len(empty) // len(full) for i in range(len(full) + 1)]
    order = []
    for i, item in enumerate(full):
        order += [*empty[edges[i] : edges[i + 1]], item]
    return order


def ring_order(counts: Counts, order: str = "ranks", nodes: Sequence[int] = ()) -> list[int]:
    """Return the ranks in order of their ring position; order is ranks, spread, nodes or both."""
    sizes = [int(m) for m in counts]
    by_node = order in ("nodes", "both")
    groups: dict[int, list[int]] = {}
    for rank in range(len(sizes)):
        node = (nodes[rank] if nodes else rank) if by_node else 0
        groups.setdefault(node, []).append(rank)
    items = []
    for _, ranks in sorted(groups.items()):
        if order in ("spread", "both"):
            ranks = [r for _, (r,) in _interleave([(sizes[r], [r]) for r in ranks])]
        elif order == "nodes":
            last = next((r for r in reversed(ranks) if sizes[r]), ranks[-1])
            ranks = [*(r for r in ranks if r != last), last]
        items.append((sum(sizes[r] for r in ranks), ranks))
    if order == "both":
        items = _interleave(items)
    return [rank for _, ranks in items for rank in ranks]
