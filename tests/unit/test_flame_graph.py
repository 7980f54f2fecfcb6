"""Flame graph of sampled stacks: widths, colours, sentences and choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from dash.exceptions import PreventUpdate
from mpiprof.dashboard import sampled_functions
from mpiprof.dashboard.figures import stacks
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState, parse
from support.dashboard_traces import MS

from mpiprof.causes.sampled_code import make_stack_tree
from mpiprof.interface.tokens import compute_contrast, get_colour, mix_colours
from mpiprof.reports.pictures import flame_graph
from mpiprof.reports.words import stack_sentences
from mpiprof.trace.trace import Trace
from unit.test_sampled_stacks import ASSEMBLE, CALL, SOLVE, late_trace, sampled

WAIT = "md.py:8:wait < md.py:20:main < md.py:30:<module>"
# Rank 2 is late: it spends 3 s in assemble, and 0.5 s less than others in wait.
ROWS = [
    (2, CALL, SOLVE, 100),
    (2, CALL, ASSEMBLE, 300),
    (2, CALL, WAIT, 50),
    *((rank, CALL, SOLVE, 100) for rank in (0, 1, 3)),
    *((rank, CALL, WAIT, 200) for rank in (0, 1, 3)),
]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Return 4 ranks with samples."""
    return sampled(late_trace(), tmp_path / "t", ROWS)


def steps_by_name(trace: Trace) -> dict[str, int]:
    """Return the colour step of each function."""
    tree = make_stack_tree(trace, [[2], [0, 1, 3]])
    names = [name for _, name in tree.functions]
    return dict(zip(names, flame_graph.difference_steps(tree).tolist(), strict=True))


def test_the_accent_marks_more_time_of_late_ranks(trace: Trace) -> None:
    """Main has an excess of 1.5 s, half of the largest; solve takes equal time on all ranks."""
    assert steps_by_name(trace) == {
        "all samples": 0,
        "<module>": 2,
        "main": 2,
        "solve": 0,
        "assemble": flame_graph.STEPS,
        "wait": -2,
    }


@pytest.mark.parametrize("dark", [False, True])
def test_labels_are_legible_on_all_colours(dark: bool) -> None:
    steps = range(-flame_graph.STEPS, flame_graph.STEPS + 1)
    colours = [*stacks.choose_colours(steps, dark=dark), get_colour("q2", dark=dark)]
    contrasts = [compute_contrast(stacks.choose_ink(one, dark=dark), one) for one in colours]
    assert min(contrasts) >= 4.5


def test_boxes_are_as_wide_as_the_time_of_a_function(trace: Trace) -> None:
    tree = make_stack_tree(trace, [[2], [0, 1, 3]])
    boxes = stacks.draw_stacks(tree, compared=True).data[0]
    np.testing.assert_array_equal(trace.plot.functions().data[0].values, boxes.values)
    widths = dict(zip(boxes.labels, boxes.values, strict=True))
    assert widths["assemble"] == pytest.approx(3000)
    assert widths["all samples"] == widths["&lt;module&gt;"] == pytest.approx(4500)
    texts = dict(zip(boxes.labels, boxes.text, strict=True))
    assert texts["assemble"] == "+3.00 s" and texts["solve"] == ""


def test_the_address_has_the_enlarged_box(trace: Trace) -> None:
    tree = make_stack_tree(trace, [[2], [0, 1, 3]])
    boxes = stacks.draw_stacks(tree).data[0]
    points = [
        {"id": node, "customdata": more}
        for node, more in zip(boxes.ids, boxes.customdata, strict=True)
    ]
    callers, state = set(boxes.parents), parse("")
    first = next(
        p for p in points if p["id"] in callers and p["customdata"][1] == 0 != int(p["id"])
    )

    def click(point: dict[str, Any], state: PageState) -> PageState:
        return sampled_functions.enlarge_box({"points": [point]}, state)

    enlarged = click(first, state)
    assert enlarged.get("box") == first["id"]
    assert click(points[0], state) == state  # the root
    assert stacks.draw_stacks(tree, box=first["id"]).data[0].level == first["id"]
    assert click(first, enlarged) == state  # a click on the top box goes back
    leaf = next(point for point in points if point["id"] not in callers)
    assert stacks.draw_stacks(tree, box=leaf["id"]).data[0].level is None
    for unmoved in (leaf, {}):
        with pytest.raises(PreventUpdate):
            click(unmoved, state)


def test_the_drawn_boxes_stand_below_their_callers(trace: Trace) -> None:
    """Assemble has 3.0 s of 4.5 s and is the widest of its siblings, so it stands first."""
    tree = make_stack_tree(trace, [[2], [0, 1, 3]])
    root = ElementTree.fromstring(flame_graph.draw_flame_graph(tree, "a < b", compared=True))
    boxes = {
        (note.text or "").partition(" ")[0]: box
        for box in root
        if (note := box.find("{*}title")) is not None
    }
    assert (float(boxes["assemble"].get("x", 9)), float(boxes["assemble"].get("y", 9))) == (0, 66)
    assert float(boxes["assemble"].get("width", 0)) == pytest.approx(1232 * 3 / 4.5 - 1, abs=0.1)
    assert float(boxes["solve"].get("x", 0)) == pytest.approx(1232 * 3 / 4.5, abs=0.1)
    assert [name for name, box in boxes.items() if "--late" in box.get("fill", "")] == [
        *("<module>", "main", "assemble")
    ]
    labels = {text.text: text.get("fill") or "" for text in root.iter() if "text" in text.tag}
    assert "--surface" in labels["assemble  +3.00 s"] and "--ink" in labels["main  +1.50 s"]


@pytest.mark.parametrize("dark", [False, True])
def test_labels_of_the_drawn_boxes_are_legible(dark: bool) -> None:
    for opacity in flame_graph.OPACITIES:
        ink = get_colour("surface" if opacity == 1 else "ink", dark=dark)
        for name in ("late", "early"):
            ground = mix_colours("surface", name, opacity, dark=dark)
            assert compute_contrast(ink, ground) >= 4.5


def test_narrow_boxes_are_left_out(tmp_path: Path) -> None:
    rare = (2, CALL, "md.py:7:rare < md.py:30:<module>", 1)
    trace = sampled(late_trace(), tmp_path / "t", [(2, CALL, SOLVE, 2000), rare])
    tree = make_stack_tree(trace, [[2]])
    shown = [tree.functions[node][1] for node in flame_graph.choose_nodes(tree)]
    assert shown == ["all samples", "<module>", "main", "solve"]


def test_a_sentence_names_the_function_with_its_error(trace: Trace) -> None:
    """300 samples have a standard error of 3 s / sqrt(300)."""
    tree = make_stack_tree(trace, [[2], [0, 1, 3]])
    text = "".join(text for text, _ in stack_sentences.excess_phrases(tree, [2]))
    assert text == (
        "Rank 2 spends 3.00 s ± 173 ms more than the mean of 3 other ranks in assemble (md.py:5), "
        "called by main."
    )
    assert stack_sentences.sample_note(tree, ["rank 2", "3 other ranks"]) == (
        "Samples: 450 of rank 2, 900 of 3 other ranks."
    )


def test_few_samples_and_missing_callers_are_reported(tmp_path: Path) -> None:
    trace = sampled(late_trace(), tmp_path / "t", [(2, CALL, "a.c:3:kernel", 8)])
    tree = make_stack_tree(trace, [[2]])
    assert "These are few" in stack_sentences.sample_note(tree, ["rank 2"])
    assert "-fno-omit-frame-pointer" in stack_sentences.caller_note(tree)


@pytest.mark.parametrize(
    ("query", "ranks", "others"),
    [
        ("", [2], [0, 1, 3]),
        ("?code=late", [2], []),
        ("?code=all", [0, 1, 2, 3], []),
        ("?code=1", [1], []),
        ("?code=99", [2], [0, 1, 3]),
        ("?rank=0-2", [2], [0, 1]),
    ],
)
def test_the_address_chooses_the_ranks(
    trace: Trace, query: str, ranks: list[int], others: list[int]
) -> None:
    data = TraceData("t", trace.path, trace)
    choice = sampled_functions.find_choice(data, parse(query), 0)
    assert (choice.ranks, choice.others) == (ranks, others)
    tree = sampled_functions.read_tree(data, choice, 0)
    assert tree.total_ns[0, 0] == pytest.approx(
        np.mean([sum(10 * MS * count for of, *_, count in ROWS if of == rank) for rank in ranks])
    )


def test_a_trace_without_samples_shows_the_remedy(tmp_path: Path) -> None:
    synthetic = late_trace()
    trace = sampled(synthetic, tmp_path / "t", [])
    data = TraceData("t", trace.path, trace)
    section = str(sampled_functions.make_section(data, parse(""), 0))
    assert "run --where PROGRAM" in section
    synthetic.lines[0].append({"rank": 0, "note": "--where: no samples: a seccomp filter"})
    trace = sampled(synthetic, tmp_path / "refused", [])
    data = TraceData("t", trace.path, trace)
    assert "a seccomp filter (rank 0)" in str(sampled_functions.make_section(data, parse(""), 0))
