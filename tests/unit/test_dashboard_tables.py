"""Data of the dashboard's pages, against the trace read in another way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpiprof.dashboard import callsite_algorithms, filtered_tables, layout, predictions
from mpiprof.dashboard.pages import callsites, compare, live, timeline
from mpiprof.dashboard.trace_data import MAX_RANKS, TraceContext, TraceData
from mpiprof.dashboard.url_state import RUNS, SHARED_KEYS, PageState, parse, parse_ranks
from support.dashboard_traces import MS, plain
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account.arrival_pattern import read_arrival_pattern
from mpiprof.account.division import divide_time
from mpiprof.account.rank_totals import make_rank_totals, point_to_point_time, read_instance
from mpiprof.errors import TraceError, UsageError
from mpiprof.reports.overview import callsite_rows
from mpiprof.reports.words.ranks_and_steps import describe_location


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TraceData:
    """Return the plain trace."""
    return TraceData("plain", plain(tmp_path_factory.mktemp("traces") / "plain"))


def test_rank_totals_add_up_to_the_call_sites(data: TraceData) -> None:
    totals = make_rank_totals(data.trace).groupby("callsite")[
        ["elapsed_ns", "total_wait_ns", "caused_ns"]
    ]
    sums = totals.sum()
    table = data.callsites.set_index("callsite")
    assert (sums["elapsed_ns"] == table["total_elapsed_ns"]).all()
    assert (sums["total_wait_ns"] == table["total_wait_ns"]).all()
    assert (sums["caused_ns"] == table["total_wait_ns"]).all()


def test_the_late_rank_is_waited_for_and_the_root_of_a_broadcast(data: TraceData) -> None:
    totals = make_rank_totals(data.trace)
    reduce = totals[totals["operation"] == "allreduce"].set_index("rank")
    assert (reduce["last"] == np.where(reduce.index == 5, 30, 0)).all()
    # Exact except for the clocks of two nodes, which are accurate to 1 ns.
    assert reduce.loc[5, "lateness_ns"] == pytest.approx(30 * (2 * MS + 50_000), abs=100)
    waiting = sum(2 * MS + 50_000 - r * 10_000 for r in range(8) if r != 5)
    assert reduce.loc[5, "caused_ns"] == pytest.approx(30 * waiting, abs=1000)
    bcast = totals[totals["operation"] == "bcast"].set_index("rank")
    assert (bcast["caused_ns"].drop(0) == 0).all()


def test_point_to_point_is_summed_also_where_32_bits_are_few(tmp_path: Path) -> None:
    trace = Synthetic(2)
    times = np.array([[1, 1], [2, 2]]) * 10_000_000_000
    trace.add_collective("barrier", times, times + 1000, sent=0, received=0)
    trace.records[0][0]["outside_ns"] = [7, 11]
    trace.add_extension(1, 1, 5_000_000_000)
    trace.records[1] = [trace.records[1][1], trace.records[1][0]]
    trace.records[1][1]["outside_ns"] = [np.iinfo(np.uint32).max, 13]
    found = point_to_point_time(mpiprof.open(trace.write(tmp_path / "trace")))
    assert found.tolist() == [18, 5_000_000_013]


def test_lateness_is_that_of_the_matrix(data: TraceData) -> None:
    callsite = int(data.callsites.query("operation == 'alltoall'")["callsite"].iloc[0])
    instances = data.instances[data.instances["callsite"] == callsite]
    ranks = np.array([1, 2, 5, 6])
    arrivals, _ = data.trace.matrix(callsite)
    late = np.where(arrivals >= 0, arrivals, np.nan)
    others = np.array([[c for c in range(8) if c != rank] for rank in ranks])
    late = np.stack(
        [late[:, r] - np.nanmedian(late[:, o], 1) for r, o in zip(ranks, others, strict=True)]
    )
    found = read_arrival_pattern(data.trace, instances, ranks, np.arange(4), 1000, 5)
    assert np.array_equal(found.late_ns, late.astype(np.float32), equal_nan=True)
    # Without rank 5, the spread of its half, ranks 4 to 7, is not smaller: rank 7 is the last.
    spread = instances["worst_imbalance_ns"].to_numpy()
    assert np.array_equal(found.rest_ns, spread)
    # Runs of ranks and instances show their largest value.
    small = read_arrival_pattern(data.trace, instances, ranks, np.array([0, 2]), 10).late_ns
    runs = np.nanmax(late.reshape(2, 2, 10, late.shape[1] // 10), axis=(1, 3))
    assert np.array_equal(small, runs.astype(np.float32))


def test_one_instance_is_a_row_of_the_matrix(data: TraceData) -> None:
    row = data.instances.query("operation == 'allreduce'").iloc[7]
    found = read_instance(data.trace, row["communicator"], row["sequence"])
    arrivals, exits = data.trace.matrix(row["callsite"])
    assert np.array_equal(found.arrival, arrivals[7])
    assert np.array_equal(found.finish, exits[7])
    assert found.wait.sum() == row["wait_ns"]
    with pytest.raises(TraceError, match="no instance 999"):
        read_instance(data.trace, row["communicator"], 999)


@pytest.mark.parametrize(
    "state",
    [
        PageState(),
        PageState(operations=("alltoall",)),
        PageState(ranks="0-2"),
        PageState(nodes=("n1",)),
        PageState(operations=("bcast", "allreduce"), ranks="5", nodes=("n1",)),
    ],
    ids=str,
)
def test_where_the_time_went_adds_up_under_every_filter(data: TraceData, state: PageState) -> None:
    parts = filtered_tables.divide_filtered_time(data, state).parts
    assert min(parts.values()) >= 0
    assert sum(parts.values()) == pytest.approx(
        data.trace.duration_ns * len(data.filtered_ranks(state))
    )
    sums = filtered_tables.filtered_totals(data, state)
    assert parts["collective_wait"] == sums["total_wait_ns"].sum()


def test_the_page_without_filters_has_the_times_of_the_report(data: TraceData) -> None:
    state = PageState()
    assert filtered_tables.divide_filtered_time(data, state) == divide_time(data.trace)
    page = filtered_tables.all_callsites(data, state)
    report = callsite_rows.list_callsites(data.trace)
    for names in (("place", "operation"), ("total_wait_ns", "bytes")):
        assert [[row[n] for n in names] for row in page] == [
            [row[n] for n in names] for row in report
        ]


def test_the_location_of_a_rank_has_its_host_and_processors(data: TraceData) -> None:
    host = data.trace.tables.processes[3]["host"]
    assert describe_location(data.trace, 3) == f"{host}, processor 3"


def test_filters_apply_to_call_sites_and_instances(data: TraceData) -> None:
    assert set(
        filtered_tables.filtered_callsites(data, PageState(operations=("bcast",)))["operation"]
    ) == {"bcast"}
    half = next(i for i, name in data.communicators if data.communicators.index((i, name)) == 1)
    callsites = filtered_tables.filtered_callsites(data, PageState(communicators=(half,)))
    assert list(callsites["operation"]) == ["alltoall"]
    callsite = int(callsites["callsite"].iloc[0])
    assert (
        len(filtered_tables.filtered_instances(data, callsite, PageState(communicators=(half,))))
        == 30
    )
    assert len(filtered_tables.filtered_instances(data, callsite, PageState())) == 60


def test_sparklines_are_means_of_equal_parts() -> None:
    values = np.array([1.0, 3.0, np.nan, 5.0, np.nan, np.nan])
    assert callsite_rows.bin_means(values, 3) == [2.0, 5.0, None]
    assert callsite_rows.bin_means(np.array([4.0]), 3) == [4.0]


def test_the_address_is_read_and_written_back() -> None:
    search = "?trace=t&communicator=a&communicator=b%26&operation=bcast&node=n&rank=0-3&callsite=7"
    state = parse(search + "&token=secret")
    assert state.communicators == ("a", "b&")
    assert state.get_number("callsite") == 7
    assert "token" not in state.format_query()
    assert parse(state.format_query()) == state
    assert state.without_page_keys().set_keys(callsite=None).format_query() == search.replace(
        "&callsite=7", ""
    )
    runs = "?trace=a1&and=a2&and=a3&with=b%2C1&with=b2"
    assert (parse(runs).also, parse(runs).to) == (("a2", "a3"), ("b,1", "b2"))
    assert (
        parse(runs).format_query() == runs
        and parse(runs).without_page_keys().format_query() == "?trace=a1"
    )
    strange = parse("?" + "x=1&" * 10_000)
    assert strange.page_keys == {}
    assert parse("?callsite=9" + "9" * 50).get_number("callsite", -1) == -1


@pytest.mark.parametrize(
    ("where", "fields"),
    [
        ('{"sites": "md.py", "bytes": 65536}', ["sites", "bytes"]),
        ('{"sites": 3, "bytes": "64K", "worst_imbalance_over_run": 1, "no": 1}', []),
        ('{"bytes": NaN, "wait_share": Infinity, "sites": {"a": 1}}', []),
        ("[1]", []),
        ("{", []),
        ("[" * 3000, []),
    ],
)
def test_the_grids_filters_are_read_with_bounds(where: str, fields: list[str]) -> None:
    assert sorted(callsites.filter_model(PageState(page_keys={"where": where}))) == sorted(fields)


def test_no_page_redefines_a_shared_key() -> None:
    """The timeline's window is from=..&to=..; once, the runs to compare also used `to`."""
    assert not timeline.PAGE_KEYS & {*SHARED_KEYS, *RUNS}


def test_the_grids_order_is_read_with_bounds() -> None:
    found = callsites.sort_model(
        PageState(page_keys={"sort": "-wait_share,sites,,-,worst_imbalance_over_run,__proto__"})
    )
    assert found == {
        "wait_share": {"sort": "desc", "sortIndex": 0},
        "sites": {"sort": "asc", "sortIndex": 1},
    }


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("", None), ("0-2, 5", [0, 1, 2, 5]), ("7-", [7]), ("x", None), ("0-99999999999999", None)],
)
def test_rank_filters_are_read_with_bounds(text: str, ranks: list[int] | None) -> None:
    expected = list(range(8)) if text.startswith("0-9") else ranks
    assert parse_ranks(text, 8) == expected


def test_a_trace_that_grows_is_opened_again(tmp_path: Path) -> None:
    folder = plain(tmp_path / "trace", instances=5)
    context = TraceContext([folder], [])
    first = context.latest_data(PageState())
    assert context.latest_data(PageState()) is first
    before = len(first.instances)
    plain(folder, instances=9)
    context._open[first.name] = (first, 0.0, 0.0)
    second = context.latest_data(PageState())
    assert second is not first and second.version != first.version
    assert (before, len(second.instances)) == (20, 36)


def test_a_trace_that_is_damaged_while_open_is_shown_as_it_was(tmp_path: Path) -> None:
    folder = plain(tmp_path / "trace", instances=5)
    context = TraceContext([folder], [])
    first = context.latest_data(PageState())
    for log in folder.glob("*.log"):
        log.write_bytes(b"rubbish")
    context._open[first.name] = (first, 0.0, 0.0)
    assert context.latest_data(PageState()) is first


def test_the_facts_state_that_a_trace_is_a_sample(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    synthetic.meta["sample"] = 5
    arrivals = np.array([[1, 2], [7, 8]]) * MS
    synthetic.add_collective("barrier", arrivals, arrivals + 2 * MS)
    folder = synthetic.write(tmp_path / "sampled")
    reported = dict(layout.list_facts(TraceData("sampled", folder)))
    assert reported["sampled"].startswith("one instance in 5: sums are estimated from these")
    assert "sampled" not in dict(layout.list_facts(TraceData("all", plain(tmp_path / "all", 2))))


def test_only_the_traces_given_can_be_named(tmp_path: Path) -> None:
    context = TraceContext([plain(tmp_path / "trace", 2)], [])
    for name in ("../trace", str(tmp_path / "trace"), "other"):
        with pytest.raises(TraceError, match="not one of the traces of this view"):
            context.latest_data(PageState(trace=name))


@pytest.mark.slow
@pytest.mark.heavy
def test_a_crafted_number_of_ranks_costs_nothing(tmp_path: Path) -> None:
    folder = plain(tmp_path / "trace", 3)
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"ranks": 4_000_000}))
    data = TraceData("t", folder)
    assert data.trace.ranks == 4_000_000
    assert data.filtered_ranks(PageState()).tolist() == list(range(8))
    assert len(data.filtered_ranks(PageState(ranks="0-3999999"))) <= MAX_RANKS
    assert live.make_strip(data, PageState()) is None
    with pytest.raises(TraceError, match="too many"):
        live.find_positions(data)


def plain_of(part: Any) -> Any:
    """Convert a page component for JSON."""
    return part.to_plotly_json()


def test_live_page_and_status_reach_the_same_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict is at the top, and the rest of the page does not contradict it."""
    synthetic = Synthetic(3)
    for rank in range(3):
        synthetic.add(
            rank, synthetic.add_shape(rank, "bcast", "world", root=int(rank == 2)), 0, 10, 0
        )
    data = TraceData("t", synthetic.write(tmp_path / "t", finished=False))
    page = json.dumps(live.make_view(data, PageState()).to_plotly_json(), default=plain_of)
    assert main(["status", str(tmp_path / "t"), "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert (verdict["class"], verdict["odd_ranks"]) == ("root", [2])
    assert page.index(json.dumps(verdict["text"])[1:-1]) < page.index("Pending collectives")
    assert "the operation is running" not in page


def test_a_job_that_hangs_is_never_shown_in_the_colour_of_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strip on all pages takes its colours from the verdict."""
    synthetic = Synthetic(3)
    for rank in range(3):
        synthetic.add(
            rank, synthetic.add_shape(rank, "bcast", "world", root=int(rank == 2)), 0, 10, 0
        )
    data = TraceData("t", synthetic.write(tmp_path / "t", finished=False))
    after_the_end = json.dumps(live.make_strip(data, PageState()), default=plain_of)
    assert '"Different roots: ' in after_the_end and '"state dead"' in after_the_end
    monkeypatch.setattr(live.status, "is_running", lambda *_: True)
    monkeypatch.setattr(live, "trace_now_ns", lambda _: 20 * 10**9)
    strip = json.dumps(live.make_strip(data, PageState()), default=plain_of)
    assert '"Different roots: Ranks name different roots' in strip and '"state dead"' in strip
    style = Path(str(layout.__file__)).with_name("assets") / "style.css"
    (rule,) = [line for line in style.read_text().splitlines() if "#live-strip a.dead" in line]
    assert "border-left-color: var(--late); background: color-mix(in srgb, var(--late)" in rule


# The selector's history, and predictions


def test_selection_is_read_as_far_as_it_is_sound(tmp_path: Path) -> None:
    folder = plain(tmp_path / "trace", 3)
    key = {"kind": "key", "key": "k1", "communicator": "c", "operation": "allreduce"}
    lines = [
        key | {"bytes": 1024, "size": 8, "sites": ["solver.py:12 step"]},
        {"kind": "trial", "key": "k1", "phase": 1, "algorithm": "ring", "instances": 6,
         "score_ns": 2.5, "error_ns": 0.5},
        {"kind": "trial", "key": "k1", "phase": "1", "algorithm": "bad", "instances": 6,
         "score_ns": 2.5},
        {"kind": "choice", "key": "k1", "phase": 1, "instance": 40, "algorithm": "ring",
         "why": "best"},
        {"kind": "unknown"}, [], None, 7,
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "selection.jsonl").write_text(text + '{"kind": "end", "key": "k1"')
    data = TraceData("t", folder)
    read = data.trace.selection
    assert list(read["trial"]["algorithm"]) == ["ring"]
    assert read["choice"]["instance"].tolist() == [40]
    assert not len(read["end"])
    callsite = int(data.callsites.query("operation == 'allreduce'")["callsite"].iloc[0])
    assert filtered_tables.callsite_keys(data, callsite) == ["k1"]
    assert filtered_tables.callsite_trials(data, callsite)["score_ns"].tolist() == [2.5]


def test_of_too_many_processes_no_page_waits_for_a_race(
    data: TraceData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One simulation cannot be interrupted, so none is started beyond so many processes."""
    requested = next(w for w in predictions.list_works(data) if w.operation == "allreduce")
    monkeypatch.setattr(predictions, "MAX_PROCESSES", requested.members - 1)
    for begin in (predictions.simulate_work, predictions.predict_sizes):
        with pytest.raises(UsageError, match=r"8 processes are too many .* mpiprof tune "):
            begin(data, requested)
    printed = str(callsite_algorithms.make_section(data, PageState(), requested.callsite))
    assert "8 processes are too many to simulate for a page" in printed


@pytest.mark.heavy
def test_the_race_is_that_of_tune_and_grows(data: TraceData) -> None:
    requested = next(w for w in predictions.list_works(data) if w.operation == "allreduce")
    table = predictions.prediction_table(predictions.simulate_work(data, requested))
    assert table["score_ns"].is_monotonic_increasing
    assert list(table.loc[table["is_now"], "algorithm"]) == ["native"]
    sizes = predictions.predict_sizes(data, requested)
    assert {8, 16, 32} <= set(sizes["processes"])
    same = sizes[sizes["processes"] == 8].groupby("algorithm")["score_ns"].min()
    assert (same > 0).all()
    larger = predictions.grow_work(requested, 100)
    assert len(larger.patterns[0].arrivals) == 100
    assert set(larger.patterns[0].arrivals) <= set(requested.patterns[0].arrivals)


def test_links_add_and_remove_the_runs_of_a_side(tmp_path: Path) -> None:
    folders = [plain(tmp_path / name, 2) for name in ("before", "after-0", "after-1")]
    context = TraceContext(folders, [])
    page = compare.make_layout(context, parse("?with=after-0"))
    links = [item.children.href for item in page["compare-to"].children]
    assert links == ["/compare", "/compare?with=after-0&with=after-1"]
    page = compare.make_layout(context, parse("?and=after-1"))
    links = [item.children.href for item in page["compare-also"].children]
    assert links == ["/compare"]
