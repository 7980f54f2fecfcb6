"""Pictures of a hang: the ranks that wait for each other, all ranks by state, the last calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mpiprof.dashboard import live_sections
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState
from support.hang_traces import now
from support.message_hangs import MessageHang

import mpiprof
from mpiprof.hang import hang_pictures, job_verdict, rank_state
from mpiprof.hang.hang_pictures import MAX_CELLS, RankCell, draw_rank_strip
from mpiprof.hang.verdict import HangVerdict
from mpiprof.reports.pictures.wait_graph import WaitEdge, WaitNode, draw_wait_graph, list_values


def missing_send(folder: Path, ranks: int = 5) -> mpiprof.Trace:
    """Return a trace in which rank 1 waits for a message of rank 2, all others in a barrier."""
    hang = MessageHang(ranks)
    hang.block(1, "recv", 2, 7, line=71)
    hang.enter_barrier(*(rank for rank in range(ranks) if rank != 1))
    return hang.write(folder)


def conclude(
    trace: mpiprof.Trace,
) -> tuple[list[rank_state.Position], list[rank_state.Pending], HangVerdict]:
    """Return the positions, the pending instances and the verdict of a hung job."""
    positions, pending = rank_state.find(trace)
    verdict = job_verdict.conclude(trace, positions, pending, now(*range(trace.ranks), after=20))
    return positions, pending, verdict


def arrows(nodes: Sequence[WaitNode], edges: Sequence[WaitEdge]) -> set[tuple[str, str, bool]]:
    """Return the titles at both ends of each arrow, and whether it belongs to the circle."""
    return {(nodes[e.source].title, nodes[e.target].title, e.in_cycle) for e in edges}


def test_the_graph_of_a_message_that_is_never_sent(tmp_path: Path) -> None:
    trace = missing_send(tmp_path)
    nodes, edges = hang_pictures.make_graph(trace, *conclude(trace))
    assert arrows(nodes, edges) == {
        ("Rank 1", "Rank 2", True),
        ("Rank 2", "Rank 1", True),
        ("3 ranks: 0, 3-4", "Rank 1", False),
    }
    assert (edges[0].text, edges[0].note) == ("needs a message", "tag 7, never sent")
    assert nodes[0].call == "in recv, app.c:71 main"
    assert [node.is_late for node in nodes] == [True, True, False]
    svg = draw_wait_graph(nodes, edges, "a < b")
    assert svg.count("<rect") == 3 and 'aria-label="a &lt; b"' in svg
    assert "…" not in svg
    assert [(row[0], row[3]) for row in list_values(nodes, edges)[1:]] == [
        ("Rank 1", "Rank 2"),
        ("Rank 2", "Rank 1"),
        ("3 ranks: 0, 3-4", "Rank 1"),
    ]


def test_a_rank_that_waits_for_a_waiting_rank_has_an_arrow_to_it(tmp_path: Path) -> None:
    """Ranks 0 and 3 wait for each other, 2 for 3, and 1 for 2."""
    hang = MessageHang(4)
    for rank, peer in ((0, 3), (3, 0), (2, 3), (1, 2)):
        hang.block(rank, "recv", peer, 7, line=71 + rank)
    trace = hang.write(tmp_path)
    nodes, edges = hang_pictures.make_graph(trace, *conclude(trace))
    assert arrows(nodes, edges) == {
        ("Rank 0", "Rank 3", True),
        ("Rank 3", "Rank 0", True),
        ("Rank 2", "Rank 3", False),
        ("Rank 1", "Rank 2", False),
    }
    texts = {nodes[edge.source].title: (edge.text, edge.note) for edge in edges}
    assert texts["Rank 1"] == ("waits for rank 2", "to send a message")
    svg = draw_wait_graph(nodes, edges, "")
    ends = [
        re.search(f"<text[^>]*>{text}<", svg) for text in ("waits for rank 2", "needs a message")
    ]
    assert [str(end and end[0]).count('text-anchor="end"') for end in ends] == [0, 1]


def test_the_graph_of_ranks_that_disagree_has_a_box_for_each_side(tmp_path: Path) -> None:
    hang = MessageHang(4)
    for rank in range(4):
        operation, root = ("barrier", None) if rank == 2 else ("bcast", 0)
        shape = hang.synthetic.add_shape(rank, operation, "world", root=root, site="app.c:9:main")
        hang.synthetic.add(rank, shape, 3, 9_000, 0)
    trace = hang.write(tmp_path)
    positions, pending, verdict = conclude(trace)
    assert (verdict.kind, verdict.odd_ranks) == ("operation", (2,))
    nodes, edges = hang_pictures.make_graph(trace, positions, pending, verdict)
    late = {node.title: node.is_late for node in nodes}
    assert late == {"3 ranks: 0-1, 3": False, "Rank 2": True}
    assert [edge.text for edge in edges] == ["cannot match"]


def test_every_arrow_of_a_long_circle_is_drawn_inside_the_picture() -> None:
    nodes = [WaitNode(f"Rank {i}", "in recv", "n0", True, True) for i in range(8)]
    edges = [WaitEdge(i, (i + 1) % 8, "needs a message", "tag 7", True) for i in range(8)]
    svg = draw_wait_graph(nodes, edges, "circle")
    assert svg.count("needs a message") == 8 and svg.count('z"') == 8
    assert draw_wait_graph([], [], "none") == ""


def test_the_strip_marks_the_awaited_rank_and_is_bounded_at_any_scale(tmp_path: Path) -> None:
    trace = missing_send(tmp_path)
    positions, _, verdict = conclude(trace)
    drawn = hang_pictures.draw_strip(trace, positions, verdict)
    svg = drawn.svg
    assert [row[2] for row in drawn.values[1:]].count("late") == 1
    assert len(drawn.values) == trace.ranks + 1
    assert svg.count('fill="var(--late,') == 1
    assert 'aria-label="Ranks: 1 that others wait for, 4 in an MPI call"' in svg
    many = [
        RankCell(r, f"n{r // 64}", "late" if r == 40_000 else "waiting") for r in range(1 << 16)
    ]
    svg = draw_rank_strip(many, "many")
    assert svg.count("<rect") <= MAX_CELLS + 4
    assert svg.count('fill="var(--late,') == 1


def test_the_last_moments_begin_with_the_named_rank_and_its_neighbours(tmp_path: Path) -> None:
    trace = missing_send(tmp_path, 32)
    positions, _, verdict = conclude(trace)
    assert hang_pictures.choose_rows(positions, [20]) == [0, 1, 2, 19, 20, 21]
    assert hang_pictures.choose_rows(positions[:2], [1]) == [0, 1]
    drawn = hang_pictures.draw_moments(trace, positions, verdict)
    assert drawn is not None
    assert drawn.svg.count(">rank ") == 6 and "recv from rank 2, tag 7" in drawn.svg
    # The call of rank 1 is still open, so its row of the data has no exit.
    assert [row[3] for row in drawn.values if row[1] == "recv from rank 2, tag 7"] == [""]


def test_only_the_state_line_changes_while_a_job_hangs(tmp_path: Path) -> None:
    trace = missing_send(tmp_path)
    data = TraceData("t", tmp_path / "t", trace)
    positions, pending, verdict = conclude(trace)
    jobs = [
        live_sections.LiveJob(
            data, positions, pending, verdict, trace.run_start_ns + seconds * 10**9
        )
        for seconds in (100, 103)
    ]
    first, second = (live_sections.make_sections(job, PageState()) for job in jobs)
    unchanged = object()
    _, digests = live_sections.changed_sections(first, {}, unchanged)
    content, _ = live_sections.changed_sections(second, digests, unchanged)
    changed = [
        n for n, c in zip(live_sections.SECTIONS, content, strict=True) if c is not unchanged
    ]
    assert changed == ["state"]
    # The page shows the command that ends the job, and has no button for it.
    text = str(second["actions"])
    assert "kill 100" in text and "This page never changes or ends a job." in text
