"""The table of columns of call sites: all tables, options and pages follow its entries."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mpiprof.dashboard import callsite_table
from mpiprof.dashboard.pages import callsites as callsites_page
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState
from support import ROOT
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account import callsites, column, columns
from mpiprof.account.callsite_sums import TIME_SUMS, SummarySums
from mpiprof.formats import export_columns
from mpiprof.interface.format_units import UNKNOWN
from mpiprof.trace import Trace

MS = 1_000_000
PAGES = ROOT / "docs" / "tools" / "pages.py"
SCRIPT = ROOT / "dashboard" / "assets" / "dashAgGridFunctions.js"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write 4 ranks: rank 2 is late by 3 ms in 10 allreduces, and by 1 ms in 5 broadcasts."""
    synthetic = Synthetic(4)
    synthetic.ended_ns = 200 * MS
    begin = np.arange(1, 11)[:, None] * 10 * MS
    for operation, count, late, root in (("allreduce", 10, 3 * MS, None), ("bcast", 5, MS, 2)):
        arrivals = begin[:count] + np.array([0, 0, late, 0])
        exits = np.repeat(arrivals.max(1, keepdims=True) + 1000, 4, 1)
        site = f"app.py:12:{operation}"
        synthetic.add_collective(operation, arrivals, exits, "world", 8, 8, root, site)
        begin = begin + 5 * MS
    return synthetic.write(tmp_path / "trace")


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> column.Column:
    """Add one column to the table: half of ω."""
    extra = column.mean(
        "half_spread_ns",
        "duration",
        "half of last minus first arrival",
        lambda rows: rows.worst_imbalance / 2,
        heading="ω½",
        views=column.EVERYWHERE,
        priority=2,
        width=123,
        legend=True,
        summary=lambda sums: sums.extreme("size", "max") / 2,
    )
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS, extra))
    return extra


def report(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    """Run the verb `report` in this process, check its exit code, and return its output."""
    assert main(["report", *map(str, words)]) == code
    return capsys.readouterr().out


def page(folder: Path, ending: str) -> str:
    """Return the report as a file of some format."""
    path = folder.with_suffix(ending)
    assert main(["report", str(folder), "-o", str(path)]) == 0
    return path.read_text("utf-8")


def heads(text: str) -> list[str]:
    """Return the headings of the table of call sites in the report's text."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Call sites by"))
    return re.split(" {2,}", lines[at + 1].strip())


@pytest.mark.heavy
@pytest.mark.usefixtures("added")
def test_reports_show_an_added_column(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = report(capsys, folder)
    assert "ω½" in heads(text)
    assert re.search(r"  allreduce .* 1\.50 ms  2 in", text)
    assert re.search(r"  bcast .* 500 µs  2 in", text)
    assert "ω½: half of last minus first arrival." in " ".join(text.split())
    rows = json.loads(report(capsys, folder, "--json"))["callsites"]
    assert [row["half_spread_ns"] for row in rows] == [1_500_000, 500_000]
    markdown, html = page(folder, ".md"), page(folder, ".html")
    for written in (markdown, html):
        assert "ω½: half of last minus first arrival." in written
    assert "| ω½ |" in markdown and "| 1.50 ms |" in markdown
    assert (
        '<th scope="col">ω½</th>' in html
        and "<td>1.50 ms</td>" in html
        and "<td>500 µs</td>" in html
    )


@pytest.mark.heavy
@pytest.mark.usefixtures("added")
def test_options_take_an_added_column(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("half_spread", "half_spread_ns"):
        text = report(capsys, folder, "--sort", name)
        assert "Call sites by half_spread_ns" in text
        assert text.index("  allreduce  app") < text.index("  bcast ")
        for limit, code in (("1400us", 3), ("1600us", 0)):
            report(capsys, folder, "--fail-on", f"{name} > {limit}", code=code)
    report(capsys, folder, "--fail-on", "half_spread < 600us and operation == bcast", code=3)


def test_exports_hold_an_added_column(folder: Path, added: column.Column) -> None:
    from pyarrow import parquet

    for to in ("csv", "parquet"):
        name = folder.with_name("tables")
        assert main(["export", str(folder), "--to", to, "-o", str(name)]) == 0
        path = Path(f"{name}-instances.{to}")
        found = pd.read_csv(path) if to == "csv" else pd.read_parquet(path)
        assert set(found["half_spread_ns"]) == {1_500_000, 500_000}
    described = parquet.read_schema(path).field("half_spread_ns").metadata[b"description"]
    assert described.decode() == added.meaning


@pytest.mark.usefixtures("added")
def test_the_grid_shows_an_added_column(folder: Path) -> None:
    data = TraceData("trace", folder)
    shown = {
        c["field"]: c
        for c in callsites_page.make_grid([], PageState()).to_plotly_json()["props"]["columnDefs"]
    }
    defined = shown["half_spread_ns"]
    assert (defined["headerName"], defined["width"]) == ("ω½", 123)
    assert defined["headerTooltip"] == "half of last minus first arrival"
    assert defined["valueFormatter"] == {"function": "duration(params.value, params)"}
    rows = callsites_page.make_grid_rows(data, PageState())
    assert [row["half_spread_ns"] for row in rows] == [1_500_000, 500_000]
    assert callsites_page.sort_model(PageState(page_keys={"sort": "-half_spread_ns"})) == {
        "half_spread_ns": {"sort": "desc", "sortIndex": 0}
    }
    facts = dict(callsite_table.callsite_facts(data.callsites.iloc[0].to_dict()))
    assert facts["half of last minus first arrival"] == "1.50 ms"


def test_the_reference_lists_an_added_column(added: column.Column) -> None:
    pages = runpy.run_path(str(PAGES))
    assert f"| `{added.name}` | ns | {added.meaning} |" in pages["callsites"](columns.recorded())
    assert f"| `{added.name}` | {added.meaning} |" in pages["tables"]()


@pytest.mark.usefixtures("added")
def test_a_summary_has_an_added_column(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = mpiprof.open(folder)
    calls = {"site_id": 0, "size": 4, "calls": 10, "total_ns": 70, "algorithm": "native"}
    volume = {"bytes": 8.0, "bytes_min": 8.0, "bytes_max": 8.0, "message_bytes": 8.0}
    times = {"message_time_ns": 10_008.0, "factor_unit_ns": 10_008.0}
    part = {"operation": "allreduce", "size": 4, "instances": 10, "observed": 0, **volume, **times}
    part |= dict.fromkeys(("latest_rank", "latest_count", "balanced", "worst_most_ns"), np.nan)
    part |= dict.fromkeys(TIME_SUMS, np.nan)
    frames = (pd.DataFrame([{"callsite": 0, **row}]) for row in (calls, part))
    monkeypatch.setattr(callsites, "sum_summary", lambda _: SummarySums(trace, *frames))
    (row,) = callsites.of_summary(trace).to_dict("records")
    assert row["half_spread_ns"] == 2.0
    assert (row["total_elapsed_ns"], row["mean_elapsed_ns"]) == (70, 7.0)
    assert {name for name in row if name not in ("callsite", "started")} == {
        c.name for c in columns.recorded()
    }


# ---- no other column


@pytest.fixture
def trace(folder: Path) -> Trace:
    return mpiprof.open(folder)


def test_data_have_the_columns_of_the_table_alone(
    trace: Trace, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = [c.name for c in columns.COLUMNS if c.recorded is not None]
    assert list(trace.callsites.columns) == ["callsite", "started", *recorded]
    for row in json.loads(report(capsys, folder, "--json"))["callsites"]:
        assert list(row) == recorded
    of_instances = [c.name for c in columns.COLUMNS if c.instance is not None]
    assert list(trace.instances.columns) == [
        *export_columns.INSTANCE_COLUMNS, *of_instances, "choice"
    ]  # fmt: skip


@pytest.mark.heavy
def test_tables_for_people_have_the_columns_of_the_table_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def in_order(headings: list[str], view: str) -> bool:
        """Return whether headings are those of a view, in their order, and the finding's cause."""
        known = iter([*(c.heading for c in columns.COLUMNS if view in c.views), "cause"])
        return all(head in known for head in headings)

    assert in_order(heads(report(capsys, folder)), columns.TERMINAL)
    row = next(line for line in page(folder, ".md").splitlines() if line.startswith("| operation"))
    assert in_order(row.strip("| ").split(" | "), columns.TERMINAL)
    table = page(folder, ".html").partition("All numbers of collectives")[2]
    page_headings = re.findall(r"<th[^>]*>([^<]*)</th>", table)
    assert len(page_headings) > 6 and in_order(page_headings, columns.PAGE)


def test_the_grid_has_the_columns_of_the_table_alone(folder: Path) -> None:
    names = {c.name for c in columns.COLUMNS if columns.GRID in c.views}
    assert {c.name for c in callsites_page.shown()} == names
    names -= {c.name for c in columns.of_messages() if c.recorded is None} - {"wait_share"}
    for row in callsites_page.make_grid_rows(TraceData("trace", folder), PageState()):
        assert set(row) == names | {"callsite", "instances"}
    functions = set(re.findall(r"^    (\w+)[:,]", SCRIPT.read_text("utf-8"), re.MULTILINE))
    numbers = {c.quantity for c in callsites_page.shown()} - {*column.TEXTS, "rank", "picture"}
    assert numbers and numbers <= functions  # the browser has a format of each quantity


def test_entries_are_unambiguous(trace: Trace) -> None:
    names = [c.name for c in columns.COLUMNS]
    assert len(names) == len(set(names))
    for view in (*column.EVERYWHERE, column.MESSAGES):
        headings = [c.heading for c in columns.of_view(view)]
        assert all(headings) and len(headings) == len(set(headings))
    for c in columns.COLUMNS:
        assert c.quantity in column.QUANTITIES and c.meaning
        assert c.name.endswith("_ns") == (c.quantity == "duration")
    rows = trace.callsites.to_dict("records")
    for c in columns.recorded():
        assert all(c.text(row) is not None for row in rows)
    assert columns.find("total_wait_ns").text({"wait_ns": np.nan, "total_wait_ns": 0}) == UNKNOWN
