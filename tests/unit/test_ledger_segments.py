"""Segments of a thread from its calls, compared with a ledger of single nanoseconds."""

from __future__ import annotations

import numpy as np
import pytest

from mpiprof.account.ledger import OUTSIDE, SEGMENT, _fill_gaps
from mpiprof.trace.types import Array, Int

END_NS = 300  # of the tested lives


def make_calls(random: np.random.Generator, count: int) -> Array:
    """Return calls of any order, some of them open, empty, within others, or beyond the life."""
    calls = np.zeros(count, SEGMENT)
    calls["begin_ns"] = random.integers(-10, END_NS + 20, count)
    calls["end_ns"] = calls["begin_ns"] + random.integers(0, 30, count)
    calls["end_ns"][random.random(count) < 0.02] = 0
    calls["shape"], calls["polls"] = np.arange(count), random.integers(0, 3, count)
    calls["completes"] = random.random(count) < 0.5
    return calls


def find_shapes(calls: Array, begin_ns: int) -> Int:
    """Return the shape of the call in each ns: of the first, and then of the longest."""
    shapes = np.full(END_NS - begin_ns, OUTSIDE)
    ends_ns = np.where(calls["end_ns"] == 0, END_NS, calls["end_ns"]).clip(begin_ns, END_NS)
    begins_ns = calls["begin_ns"].clip(begin_ns, END_NS)
    for index in np.lexsort((-ends_ns, begins_ns)).tolist():
        of_call = shapes[begins_ns[index] - begin_ns : ends_ns[index] - begin_ns]
        of_call[of_call == OUTSIDE] = calls["shape"][index]
    return shapes


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_segments_fill_the_life(count: int, is_ordered: bool) -> None:
    random = np.random.default_rng(count)
    for begin_ns in (0, 7, END_NS - 1):
        calls = make_calls(random, count)
        if is_ordered:
            calls = np.sort(calls, order="begin_ns", kind="stable")
            calls["shape"] = np.arange(count)
        expected = find_shapes(calls, begin_ns)
        segments = _fill_gaps(calls.copy(), begin_ns, END_NS)
        length_ns = segments["end_ns"] - segments["begin_ns"]
        assert (length_ns > 0).all()
        assert segments["begin_ns"][0] == begin_ns and segments["end_ns"][-1] == END_NS
        assert (segments["begin_ns"][1:] == segments["end_ns"][:-1]).all()
        assert np.repeat(segments["shape"], length_ns).tolist() == expected.tolist()
        for segment in segments[segments["shape"] != OUTSIDE]:
            call = calls[segment["shape"]]
            assert segment["polls"] == call["polls"]
            assert segment["completes"] == call["completes"]


def test_a_life_that_ends_before_it_begins_has_no_segments() -> None:
    assert not len(_fill_gaps(make_calls(np.random.default_rng(1), 9), END_NS, 0))
