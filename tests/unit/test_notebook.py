"""Figures by one call each, call sites by name, and a readable interface."""

from __future__ import annotations

from html import escape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program
from support.synthetic import Synthetic

import mpiprof
from dashboard.timeline import window
from mpiprof.causes.compare import compare
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.hang import job_verdict
from mpiprof.hang.words import verdict_text
from mpiprof.interface import tokens
from mpiprof.reports import changes_chart
from mpiprof.reports.notebook_table import FindingList
from mpiprof.reports.words import finding_sentences
from unit.test_hang_pictures import conclude, missing_send

go = pytest.importorskip("plotly.graph_objects")
MS = 1_000_000
DRAWN = ("verdict", "time", "ranks", "stages")  # as SVG
SITED = ("arrivals", "instance", "whom", "algorithms", "functions")


@pytest.fixture
def trace(tmp_path: Path) -> mpiprof.Trace:
    synthetic = Synthetic(4)
    synthetic.started_ns, synthetic.ended_ns = 0, 800 * MS
    for number, (operation, site, late) in enumerate(
        [("allreduce", "md.py:93:force", 3 * MS), ("bcast", "md.py:12:start", MS)]
    ):
        begins = (np.arange(1, 31)[:, None] + 40 * number) * 10 * MS
        arrivals = begins + np.array([0, late if number else 0, 0, 0 if number else late])
        exits = arrivals.max(1, keepdims=True) + 9_000 + 0 * arrivals
        synthetic.add_collective(operation, arrivals, exits, site=site, root=1 if number else None)
    return mpiprof.open(synthetic.write(tmp_path / "trace"))


def test_the_interface_alone_is_listed() -> None:
    assert dir(mpiprof) == sorted(["Trace", "__version__", "open"])


@pytest.mark.parametrize("site", ["md.py:93", "allreduce", "force"])
def test_call_sites_by_name(trace: mpiprof.Trace, site: str) -> None:
    number = int(trace.callsites.query("operation == 'allreduce'")["callsite"].iloc[0])
    assert trace.callsite(site) == trace.callsite(number) == number
    assert np.array_equal(trace.matrix(site)[0], trace.matrix(number)[0])
    assert trace.matrix_ranks(site).tolist() == [0, 1, 2, 3]
    assert trace.conclusions(site)[0].ranks == (3,)
    assert len(trace.phases(site)) == 1 and trace.arrival_statistics(site).instances == 30


def test_an_unknown_name_lists_the_names(trace: mpiprof.Trace) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.py: no such call site; known: md\.py:93"):
        trace.plot.arrivals("nowhere.py")
    with pytest.raises(
        MpiprofError, match="instance 30: the call site has 30 instances, counted from 0"
    ):
        trace.plot.instance("md.py:93", 30)


@pytest.mark.heavy
def test_every_picture_in_a_line(trace: mpiprof.Trace) -> None:
    names = [name for name in dir(trace.plot) if not name.startswith("_")]
    assert set(names) == {*SITED, *DRAWN, "messages", "compare", "timeline", "hang"}
    assert all(name in repr(trace.plot) for name in names)
    for name in set(names) - {"compare", "hang", *DRAWN}:
        assert isinstance(getattr(trace.plot, name)(), go.Figure)
    for name in SITED:
        assert isinstance(getattr(trace.plot, name)("bcast"), go.Figure)


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_of_the_overview_are_svg(name: str, trace: mpiprof.Trace, tmp_path: Path) -> None:
    """Rank 3 is late at the allreduce, so it has the accent in each picture."""
    picture = getattr(trace.plot, name)()
    picture.save(tmp_path / "picture.svg")
    drawn = (tmp_path / "picture.svg").read_text()
    assert ElementTree.fromstring(drawn).get("role") == "img"
    assert drawn == picture._repr_svg_() in picture._repr_html_()
    assert tokens.LIGHT["late"] in drawn and "var(" not in picture._repr_html_()
    assert repr(picture).startswith("<picture: ")
    assert (name == "verdict") == ("typical one" in picture._repr_html_())


def test_figures_show_the_planted_values(trace: mpiprof.Trace) -> None:
    heat = next(t for t in trace.plot.arrivals("md.py:93").data if t.type == "heatmap")
    unit = 1e3  # µs, because the colours end at a quarter of the lateness
    assert np.allclose(np.array(heat.z)[3] * unit, 3 * MS)
    assert np.allclose(np.array(heat.z)[:3], 0)
    whom = trace.plot.whom("md.py:93").data[0]
    assert np.flatnonzero(~np.isnan(np.array(whom.z)).all(0)).tolist() == [3]


def test_figures_are_explained_without_the_clicks_of_the_page(trace: mpiprof.Trace) -> None:
    plot = trace.plot
    for figure in (plot.arrivals(), plot.instance(), plot.whom(), plot.timeline()):
        text = figure.layout.title.text
        assert len(text) > 80 and "click" not in text.lower()
        assert figure.layout.height > figure.layout.margin.t + 200


def test_every_derived_table_takes_names(trace: mpiprof.Trace) -> None:
    number = trace.callsite("bcast")
    assert [*trace.series("bcast")] == [*trace.samples(["md.py:12"])] == [number]
    assert len(trace.series(["bcast", "md.py:93"])) == 2
    whom = trace.waiting_for("bcast").total_wait_ns
    assert np.array_equal(whom, trace.waiting_for((number,)).total_wait_ns)
    assert whom.sum() == pytest.approx(float(trace.callsites["total_wait_ns"][number]))
    assert trace.derive("arrival_statistics", "bcast") is trace.derive("arrival_statistics", number)
    with pytest.raises(UsageError, match="no such call site"):
        trace.waiting_for("nowhere.py")


def test_the_timeline_shows_waiting_ranks(trace: mpiprof.Trace) -> None:
    """In the first allreduce ranks 0 to 2 wait for rank 3 (pale), and rank 3 is outside."""
    begin = 10 * MS - trace.calls_start_ns
    heat = trace.plot.timeline(begin, begin + 3 * MS).data[0]
    value, names = np.array(heat.z), np.array(heat.customdata)[..., 0]
    assert list(heat.y) == ["0", "1", "2", "3"]
    assert (value[:3] % 2 == 1).all() and (names[:3] == "allreduce").all()
    assert np.isnan(value[3, : -(value.shape[1] // 50)]).all()
    whole = trace.plot.timeline()
    assert {t.name for t in whole.data} >= {"allreduce", "bcast"}


def test_timeline_of_grouped_ranks_has_its_tiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture of grouped ranks needs two sets of tiles: of all ranks, and of the shown ones."""
    monkeypatch.setattr(window, "DIRECT_LIMIT", 0)
    trace = Synthetic(130)
    for step in range(2):
        trace.add_collective(
            "barrier", 1000 * step + np.arange(130), np.full(130, 1000 * step + 900)
        )
    cells = mpiprof.open(trace.write(tmp_path)).plot.timeline().data[0].z
    assert len(cells) < 130 and np.isfinite(np.array(cells, np.float64)).any()


def test_two_traces_in_one_picture(trace: mpiprof.Trace) -> None:
    for other in (trace, str(trace.path)):
        assert "Waiting before and after at 2 call sites; 0 changed" in repr(
            trace.plot.compare(other)
        )
    assert "Time in the call before" in repr(trace.plot.compare(trace, "time"))
    with pytest.raises(UsageError, match="share: no such measure; known: waiting, time"):
        trace.plot.compare(trace, "share")


def test_a_comparison_draws_totals(tmp_path: Path) -> None:
    """Rank 1 is late by 1 ms in 100 steps, and by 20 ms at the single barrier at the end."""
    synthetic = Synthetic(2)
    step = 10 * MS * np.arange(1, 101)[:, None] + np.array([0, MS])
    synthetic.add_collective(
        "allreduce", step, step.max(1, keepdims=True) + 9_000 + 0 * step, site="a:1:f"
    )
    end = 2_000 * MS + np.array([[0, 20 * MS]])
    synthetic.add_collective("barrier", end, end.max() + 9_000 + 0 * end, site="a:2:end")
    trace = mpiprof.open(synthetic.write(tmp_path / "trace"))
    drawn = trace.plot.compare(trace).svg
    assert drawn.index(">a:1<") < drawn.index(">a:2<")
    chart = changes_chart.draw_changes(
        changes_chart.name_places(compare([trace], [trace])), [trace], [trace]
    )
    assert chart.picture is not None
    # Mean of the two ranks.
    waits = [float(row[4]) for row in chart.picture.values[1:]]
    assert waits == pytest.approx([50 * MS, 10 * MS], rel=0.02)


def test_the_stages_name_the_work_of_the_late_rank(trace: mpiprof.Trace) -> None:
    assert "Lateness of rank 3 by stage" in repr(trace.plot.stages("md.py:93"))


def test_a_hang_is_drawn_and_a_job_that_ended_has_none(
    trace: mpiprof.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 waits for a message that rank 2 never sends. The processes are simulated."""
    with pytest.raises(UsageError, match="no fault is visible"):
        trace.plot.hang()
    hung = missing_send(tmp_path / "hung")
    positions, pending, verdict = conclude(hung)
    monkeypatch.setattr(job_verdict, "observe_job", lambda _: (verdict, positions, pending))
    picture = hung.plot.hang()
    assert "Rank 1" in picture.svg and "never sent" in picture.svg
    assert picture.note.startswith(verdict_text.verdict_title(verdict))


def test_tables_have_the_words_of_the_report(trace: mpiprof.Trace) -> None:
    table = trace.show.callsites()
    page = table._repr_html_()
    assert page.count("<tr>") == len(trace.callsites) + 1 and "md.py:93 force" in page
    assert "cause" in page and "<script" not in page
    assert "md.py:93 force" in repr(table) and "Σ wait" in repr(table)
    assert "the first 1 of 2" in repr(trace.show.callsites(1))


def test_tables_of_messages_name_the_pairs_that_wait(tmp_path: Path) -> None:
    """Rank 5 works longer than its neighbours 4 and 6, which wait for its messages."""
    program = Program(16)
    work = np.full(16, 2 * MS) + 8 * MS * (np.arange(16) == 5)
    for _ in range(20):
        program.halo(make_ring(16), own_ns=work, bytes_=4096)
    trace = mpiprof.open(program.write(tmp_path / "ring"))
    first = trace.show.pairs(2)
    assert {first.columns[0].cells[0], first.columns[1].cells[0]} <= {"rank 4", "rank 5", "rank 6"}
    assert first.columns[1].cells[0] == "rank 5"
    assert "<td" in trace.show.messages()._repr_html_()


def test_repr_of_a_trace_describes_it(trace: mpiprof.Trace) -> None:
    assert "4 ranks on 1 node" in repr(trace)


def test_findings_are_a_table_in_the_words_of_the_report(trace: mpiprof.Trace) -> None:
    findings = trace.findings()
    assert isinstance(findings, FindingList)
    page = findings._repr_html_()
    assert page.count("<tr>") == len(findings) + 1 > 1
    for finding in findings:
        assert escape(finding_sentences.finding_title(trace, finding)) in page
        assert escape(finding_sentences.advise(trace, finding)) in page
    assert "allreduce at md.py:93 force" in page and "rank 3" in page
    assert "<script" not in page
    empty = FindingList(trace, [])
    assert empty == [] and "nothing is to be gained" in empty._repr_html_()
