"""Partners of messages, compared with a search of all messages."""

from __future__ import annotations

import numpy as np
import pytest

from mpiprof.metrics.message_partners import IDENTITY, find_partners
from mpiprof.trace.types import Array, Bool


def define_partners(messages: dict[str, Array], usable: Bool) -> list[int]:
    """Return the last row of the other side with the same identity, or -1."""
    last: dict[tuple[int, ...], int] = {}
    keys = list(zip(*(messages[name].tolist() for name in IDENTITY), strict=True))
    received = messages["received"].tolist()
    for row in np.flatnonzero(usable).tolist():
        last[(received[row], *keys[row])] = row
    return [
        last.get((not received[row], *keys[row]), -1) if usable[row] else -1
        for row in range(len(keys))
    ]


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_the_partner_is_the_last_row_of_the_other_rank(ranks: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rank = np.sort(random.integers(0, ranks, 400))
    peer = random.integers(0, ranks, 400)
    received = random.random(400) < [0.5, 0.5, 0.1, 0.0][seed]
    messages = {
        "received": received,
        "communicator": random.integers(0, 2, 400).astype(np.int32),
        "source": np.where(received, peer, rank).astype(np.int32),
        "destination": np.where(received, rank, peer).astype(np.int32),
        "tag": random.integers(-1, 2, 400),
        "number": random.integers(0, 6, 400),
    }
    usable = random.random(400) < 0.9
    found = find_partners(messages, usable, ranks)
    assert found.tolist() == define_partners(messages, usable)
