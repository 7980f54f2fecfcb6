"""Pages Runs and History, and the traces that `view FOLDER` shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from mpiprof.dashboard.pages import history as history_page
from mpiprof.dashboard.pages import list_pages, runs
from mpiprof.dashboard.pages.history import list_values, make_history_picture
from mpiprof.dashboard.trace_data import TraceContext, shorten_fault
from mpiprof.dashboard.url_state import PageState
from support.run_folders import write_runs

from mpiprof.commands.view import trace_folders
from mpiprof.errors import TraceError
from mpiprof.reports import history
from mpiprof.reports.run_summary import list_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_runs(tmp_path_factory.mktemp("nightly"), 12, 7)
    broken = folder / "mpiprof-broken"
    broken.mkdir()
    (broken / "meta.json").write_text('{"program": "<b>", "started": "2025-01-01T00:00:00Z"}')
    return folder


@pytest.fixture
def context(folder: Path) -> TraceContext:
    paths, lists_runs = trace_folders([folder])
    return TraceContext(paths, [], lists_runs=lists_runs)


def texts(component: Any) -> list[str]:
    """Return the texts of a component in order."""
    children = getattr(component, "children", component)
    if isinstance(children, list | tuple):
        return [text for child in children for text in texts(child)]
    return [str(children)] if isinstance(children, str) else texts(children) if children else []


def test_folders_become_lists_of_traces(folder: Path, tmp_path: Path) -> None:
    paths, lists_runs = trace_folders([folder])
    assert lists_runs and len(paths) == 13 and paths[-1].name == "mpiprof-broken"
    assert trace_folders(paths[:1]) == (paths[:1], False)
    with pytest.raises(TraceError):
        trace_folders([tmp_path])


def test_runs_are_listed_before_they_are_read(context: TraceContext) -> None:
    before = texts(runs.make_rows(context, ""))
    assert before.count("solver.py") == 12 and "…" in before and context.run_list.done == 0
    context.run_list.complete()
    after = texts(runs.make_rows(context, ""))
    assert "…" not in after and context.run_list.done == 13
    assert after.count("Rank 2 delayed the other ranks") == 5
    assert any("no mpiprof trace in it" in text for text in after)
    assert texts(runs.make_rows(context, "rank 2 03-09")).count("solver.py") == 1
    assert "No run matches" in texts(runs.make_rows(context, "nothing"))


def test_history_page_names_the_change(context: TraceContext) -> None:
    assert "Reading 1 of 13 traces …" in texts(history_page.make_view(context, PageState()))
    context.run_list.complete()
    shown = " ".join(texts(history_page.make_view(context, PageState())))
    assert "lost time rose" in shown and "2026-03-08 08:00, commit 00000000" in shown
    state = PageState().set_keys(program="<b> on 0 ranks")
    assert "too few" in " ".join(texts(history_page.make_view(context, state)))


def test_picture_shows_every_run(context: TraceContext) -> None:
    context.run_list.complete()
    of_solver = [run for run in context.run_list.runs.values() if run.program == "solver.py"][::-1]
    found = history.make_history(of_solver)
    picture = make_history_picture(found)
    root = ET.fromstring(picture)
    assert root.get("role") == "img" and "rose" in str(root.get("aria-label"))
    titles = re.findall(r"<title>([^<]*)</title>", picture)
    assert len(titles) == 3 * len(of_solver) and titles[0].startswith("2026-03-01 08:00 00000000: ")
    head, *rows = list_values(found)
    assert head[:3] == ("date", "commit", "lost")
    assert [row[:2] for row in rows] == [(run.date, run.commit) for run in of_solver]


def test_pages_of_folders_are_hidden_otherwise(folder: Path) -> None:
    assert {runs, history_page} == set(list_pages(of_folder=True)) - set(list_pages())
    assert len(list_runs([folder])) == 13


def test_a_fault_is_one_short_sentence_in_the_list() -> None:
    line = (
        "BLOCKED IN POINT-TO-POINT: Ranks wait for each other in a circle: rank 5 waits in recv "
        "on MPI_COMM_WORLD at halo.c:71 fetch for tag 7 from rank 2. Rank 2 must send."
    )
    short = "Blocked in point-to-point: ranks wait for each other in a circle"
    assert shorten_fault(line) == short
    assert shorten_fault("MISSING RANK: Rank 3 waits.") == "Missing rank: rank 3 waits"
    assert shorten_fault("") == ""
