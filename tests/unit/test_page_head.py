"""Head of the pages: search and the names of the active filters."""

from __future__ import annotations

import pytest
from mpiprof.dashboard import header
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState, clear_filters
from support.dashboard_traces import plain

ALGORITHM = "/algorithms?name=kang_teams&of=allgather"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TraceData:
    """Return 8 ranks on 2 nodes, with call sites in three files."""
    return TraceData("plain", plain(tmp_path_factory.mktemp("traces") / "plain", 5))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("5", [("rank", "rank 5 on n1", "/timeline?rank=5")]),
        ("Rank 3", [("rank", "rank 3 on n0", "/timeline?rank=3")]),
        ("ranks 1-3", [("rank", "ranks 1-3", "/timeline?rank=1-3")]),
        ("N1", [("node", "n1", "/?node=n1")]),
        ("Solver", [("call site", "allreduce at solver.py:12 step", "/callsites?callsite=0")]),
        ("READ bcast", [("call site", "bcast at io.py:7 read", "/callsites?callsite=1")]),
        ("kang_teams", [("algorithm", "kang_teams of allgather", ALGORITHM)]),
        ("flame", [("page", "functions between collectives: flame graph", "/functions")]),
        ("8", []),
        (" ", []),
        ("<script>", []),
    ],
)  # fmt: skip
def test_the_search_finds_ranks_nodes_call_sites_and_algorithms(
    data: TraceData, query: str, expected: list[tuple[str, str, str]]
) -> None:
    found = header.find_targets(data, PageState(), query)
    assert [(one.group, one.text, one.href) for one in found] == expected


def test_a_result_keeps_the_trace_and_the_other_filters(data: TraceData) -> None:
    state = PageState(trace="plain", operations=("bcast",), page_keys={"sort": "x"})
    found = header.find_targets(data, state, "5")
    assert [one.href for one in found] == ["/timeline?trace=plain&operation=bcast&rank=5"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (PageState(), "All ranks"),
        (PageState(ranks="7"), "rank 7"),
        (PageState(ranks="16-31", nodes=("n02",)), "n02, ranks 16-31"),
        (PageState(nodes=("a", "b", "c", "d"), operations=("bcast",)), "a, b, c and 2 more"),
        (PageState(communicators=("1f",)), "world"),
    ],
)
def test_the_button_names_the_active_filters(state: PageState, expected: str) -> None:
    assert header.name_filters(state, {"1f": "world"}) == expected
    assert header.name_filters(clear_filters(state), {}) == "All ranks"
