"""Partners of messages, compared with a search of all messages, and rows of stored tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mpiprof.account.message_tables import (
    IDENTITY,
    MESSAGE_COLUMNS,
    MessageRows,
    find_partners,
    pack_messages,
)
from mpiprof.trace.message_decoder import MESSAGE
from mpiprof.trace.messages import COMPLETE, DOUBTFUL, RECEIVED_FLAG, UNKNOWN_PEER, UNSURE
from mpiprof.trace.types import Array, Bool

LOCAL = 2  # a communicator whose messages are not identified


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


def make_rows(ranks: int, seed: int) -> MessageRows:
    """Return random messages, of which each call has one."""
    random, count = np.random.default_rng(seed), 400
    rows = np.zeros(count, MESSAGE)
    rows["call"], rows["partner"] = np.arange(count), -1
    rows["number"], rows["tag"] = random.integers(0, 6, count), random.integers(-1, 2, count)
    rows["shape"], rows["bytes"] = random.integers(0, 24, count), random.integers(-1, 3, count)
    is_received = random.random(count) < [0.5, 0.5, 0.1, 0.0][seed]
    rows["flags"] = COMPLETE | RECEIVED_FLAG * is_received
    for flag in (UNSURE, DOUBTFUL, UNKNOWN_PEER):
        rows["flags"] |= np.where(random.random(count) < 0.05, flag, 0).astype(np.uint8)
    communicators, peers = np.arange(24) % 3, random.integers(-1, ranks + 1, 24)
    rank, times = np.sort(random.integers(0, ranks, count)), np.zeros(count, np.int64)
    return MessageRows(rows, communicators, peers, np.zeros(24, np.int32), rank, times, times)


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_the_partner_is_the_last_row_of_the_other_rank(ranks: int, seed: int) -> None:
    messages = make_rows(ranks, seed)
    columns = messages.take_columns([*IDENTITY, "received", "sure", "bytes"])
    usable = columns["sure"] & (columns["communicator"] != LOCAL)
    usable &= columns["destination"] < ranks
    find_partners(messages.make_struct(ranks), np.arange(3) == LOCAL)
    partner = messages.rows["partner"]
    assert partner.tolist() == define_partners(columns, usable)
    learns = columns["received"] & (columns["bytes"] < 0) & (partner >= 0)
    expected = np.where(learns, columns["bytes"][partner], columns["bytes"])
    assert messages.rows["bytes"].tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_made_from_their_table(seed: int) -> None:
    messages = make_rows(5, seed)
    find_partners(messages.make_struct(5), np.arange(3) == LOCAL)
    table = pd.DataFrame(messages.take_columns(MESSAGE_COLUMNS))
    names = ("rank", "enter_ns", "exit_ns")
    calls = pd.DataFrame({name: getattr(messages, name) for name in names})
    found = pd.DataFrame(pack_messages(table, calls).take_columns(MESSAGE_COLUMNS))
    pd.testing.assert_frame_equal(found, table, check_dtype=False)
