"""The HTML report: the sentence of the overview, no reference to other files, a bounded size."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from mpiprof.dashboard.pages.overview import find_verdict, make_answer
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState
from support.neighbours import make_ring
from support.page_traces import simulate, write_damaged, write_summary
from support.program import Program
from support.synthetic import Synthetic

import mpiprof
from mpiprof.hang import hang_pictures
from mpiprof.interface import tokens
from mpiprof.reports.html_report.page import make_page
from mpiprof.reports.words import conclusion, finding_sentences
from unit.test_flame_graph import ROWS as FLAME_ROWS
from unit.test_hang_pictures import conclude, missing_send
from unit.test_sampled_stacks import late_trace, sampled

MS = 1_000_000
VOID = {"meta", "br"}
WITHOUT_CONTENT = {"script", "link", "iframe", "img", "image", "object", "embed", "form"}


class Page(HTMLParser):
    """Text and elements of a page; every element must be closed in its order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.attributes = "", set[str](), list[tuple[str, str]]()
        self.open: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element."""
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element of a picture."""
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Record a text outside the style."""
        if self.open[-1:] != ["style"]:
            self.text += data


def idle(folder: Path) -> Path:
    """Write 8 ranks that never wait."""
    program = Program(8)
    for _ in range(40):
        program.collective("allreduce", "app.py:1:main", np.full(8, 10 * MS))
    return program.write(folder)


def ring(folder: Path) -> Path:
    """Write 16 ranks that wait for messages of rank 5 only."""
    program = Program(16)
    work = np.full(16, 2 * MS) + 8 * MS * (np.arange(16) == 5)
    for _ in range(20):
        program.halo(make_ring(16), own_ns=work, bytes_=4096)
    return program.write(folder)


def late(folder: Path) -> Path:
    """Write 64 ranks of which rank 21 is late."""
    return simulate(64, 21, 20).write(folder)


def damaged(folder: Path) -> Path:
    """Write a trace that lacks the log of a rank."""
    folder.mkdir()
    return write_damaged(folder)


TRACES = (late, idle, ring, damaged, write_summary)


@pytest.mark.parametrize("write", TRACES)
def test_the_page_has_the_sentences_of_overview_and_report(write: object, tmp_path: Path) -> None:
    """The traces: a late rank, nothing to gain, messages alone, a damaged one, a summary."""
    assert callable(write)
    folder = write(tmp_path / "trace")
    data = TraceData("t", folder)
    trace, page = data.trace, Page(make_page(mpiprof.open(folder)))
    verdict = find_verdict(data)
    answer = make_answer(data, PageState())
    assert answer is not None
    spoken = re.sub(r"\s+", " ", page.text)
    for one in _texts(answer.children):
        if not one.startswith("Show "):  # the button
            assert one in spoken
    lines = conclusion.verdict_lines(trace, verdict)
    assert verdict.worst is not None or lines[-1].replace("`", "") in spoken
    for finding in data.derive("findings"):
        assert finding_sentences.finding_text(trace, finding).replace("`", "") in spoken


def _texts(part: object) -> list[str]:
    """Return the texts of a component."""
    if isinstance(part, str):
        return [re.sub(r"\s+", " ", part)] if part.strip() and not part.startswith("<svg") else []
    if isinstance(part, list | tuple):
        return [text for one in part for text in _texts(one)]
    if getattr(part, "className", "") == "copy":
        return []
    return _texts(getattr(part, "children", None) or "")


@pytest.mark.parametrize("write", TRACES)
def test_the_page_stands_alone(write: object, tmp_path: Path) -> None:
    assert callable(write)
    text = make_page(mpiprof.open(write(tmp_path / "trace")))
    page = Page(text)
    assert not page.tags & WITHOUT_CONTENT
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    assert not [value for name, value in page.attributes if name == "href"]
    assert not re.search(r"@import|url\((?!#hatch-)", text)
    assert len(text.encode()) < 200_000
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_late_rank_is_in_every_picture(tmp_path: Path) -> None:
    text = make_page(mpiprof.open(late(tmp_path / "trace")), predicted="Predicted: 1 s.")
    page = Page(text)
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert any("63 ranks wait" in label and "rank 21" in label for label in labels)
    assert any("20 instances: rank 21 arrives late" in label for label in labels)
    assert page.text.count("How to read this:") == 3
    assert "Predicted: 1 s." in page.text and f"--late:{tokens.DARK['late']}" in text


def test_waiting_for_messages_has_a_matrix(tmp_path: Path) -> None:
    page = Page(make_page(mpiprof.open(ring(tmp_path / "trace")), "JOB <ENDED>"))
    assert {"Who waits for whom", "Who sends to whom"} <= set(re.findall("Who [a-z ]+", page.text))
    assert "for rank 5" in page.text and "JOB <ENDED>" in page.text


def test_a_hung_job_has_its_wait_graph(tmp_path: Path) -> None:
    """Rank 1 waits for a message that rank 2 never sends; ranks 0, 3 and 4 wait for rank 1."""
    trace = missing_send(tmp_path)
    drawn = hang_pictures.draw_hang(trace, *conclude(trace))
    assert drawn is not None and "needs a message" in drawn.svg
    page = make_page(trace, "DEADLOCK", drawn)
    assert Page(page).text.count(drawn.title) == 1
    assert drawn.svg in page and drawn.how_to_read in page


def test_sampled_functions_have_a_flame_graph(tmp_path: Path) -> None:
    """Rank 2 is late because of 3 s in assemble."""
    page = make_page(sampled(late_trace(), tmp_path / "t", FLAME_ROWS))
    assert "Rank 2 spends 3.00 s ± 173 ms more" in Page(page).text
    assert page.count(">assemble  +3.00 s<") == 3  # one picture for each width of the page


def test_the_page_stays_small(tmp_path: Path) -> None:
    """Many ranks, more call sites than are listed, names of 300 and of 100 000 characters."""
    random, ranks, calls = np.random.default_rng(0), 1024, 60
    synthetic = Synthetic(ranks)
    for i in range(calls):
        arrivals = MS * i + random.integers(10_000, 500_000, (1, ranks))
        name = "x" * (100_000 if i % 20 == 0 else 300)
        exits = np.full_like(arrivals, 900_000 + MS * i)
        synthetic.add_collective("barrier", arrivals, exits, site=f"a:{i}:{name}")
    synthetic.ended_ns = MS * (calls + 1)
    page = make_page(mpiprof.open(synthetic.write(tmp_path / "trace")))
    assert len(page.encode()) < 400_000
