"""Messages as arrows between the calls that send and receive them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.trace.types import Int


@dataclass(frozen=True)
class Arrows:
    """Messages with both sides logged: rows of `messages`, and the rows of their calls."""

    sent: Int
    received: Int
    sender: Int
    receiver: Int


def make_arrows(messages: pd.DataFrame, calls: pd.DataFrame) -> Arrows:
    """Return the messages with a logged sender and a receiver that has received them."""
    call = messages["call"].to_numpy(np.int64)
    ended = calls["exit_ns"].to_numpy(np.int64)[call] > 0
    done = ended & messages["received"].to_numpy() & messages["complete"].to_numpy()
    received = np.flatnonzero(done & (messages["partner"].to_numpy() >= 0))
    # A probe and the receive after it have the same partner; the receive is the later row.
    sent = messages["partner"].to_numpy(np.int64)[received]
    _, last = np.unique(sent[::-1], return_index=True)
    chosen = np.sort(len(sent) - 1 - last)
    sent, received = sent[chosen], received[chosen]
    return Arrows(sent, received, call[sent], call[received])


def number_by_call(calls: Int, first: int) -> dict[int, tuple[int, ...]]:
    """Return the numbers of the arrows at each call that has any; they count from `first`."""
    grouped: dict[int, list[int]] = {}
    for arrow, call in enumerate(calls.tolist(), first):
        grouped.setdefault(call, []).append(arrow)
    return {call: tuple(numbers) for call, numbers in grouped.items()}
