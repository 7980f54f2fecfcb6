"""A notebook's stored figure is visible without scripts, and shows the planted values."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import mpiprof
from mpiprof.reports import colours
from mpiprof.testing.synthetic import Synthetic

go = pytest.importorskip("plotly.graph_objects")
import plotly.io as pio  # noqa: E402

MS = 1_000_000
INTERACTIVE, STATIC = "application/vnd.plotly.v1+json", "image/svg+xml"
PICTURES = ["time", "ranks", "whom", "arrivals", "factors", "late_ranks", "spread"]
PICTURES += ["distribution", "instance", "algorithms", "timeline"]


@pytest.fixture
def trace(tmp_path: Path) -> mpiprof.Trace:
    """Write four ranks; rank 3 is late by 3 ms at a call site with markup in its name."""
    made = Synthetic(4)
    arrivals = np.arange(1, 31)[:, None] * 10 * MS + np.array([0, 0, 0, 3 * MS])
    exits = arrivals.max(1, keepdims=True) + MS + 0 * arrivals
    made.collective("allreduce", arrivals, exits, site="<script>&.py:93:force")
    return mpiprof.open(made.write(tmp_path / "trace"))


@pytest.fixture(autouse=True)
def jupyter() -> Iterator[None]:
    """Set Plotly's renderer of JupyterLab and similar notebooks."""
    before, pio.renderers.default = pio.renderers.default, "plotly_mimetype"
    yield
    pio.renderers.default = before


def drawn(figure: Any) -> ElementTree.Element:
    """Return the static picture of a figure."""
    return ElementTree.fromstring(figure._repr_mimebundle_()[STATIC])


def boxes(picture: ElementTree.Element, colour: str) -> list[dict[str, float]]:
    """Return position and size of the boxes of a colour, except in the legend."""
    found = [box.attrib for box in picture if box.get("fill") == colour]
    sizes = [{k: float(box[k]) for k in ("x", "y", "width", "height")} for box in found]
    return [box for box in sizes if (box["width"], box["height"]) != (10, 10)]


@pytest.mark.parametrize("name", [*PICTURES, "compare"])
def test_every_picture_is_kept_without_scripts(trace: mpiprof.Trace, name: str) -> None:
    figure = trace.plot.compare(trace) if name == "compare" else getattr(trace.plot, name)()
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {INTERACTIVE, STATIC}
    picture = ElementTree.fromstring(bundle[STATIC])
    for element in picture.iter():
        assert element.tag.rpartition("}")[2] in (
            ["svg", "rect", "line", "path", "text", "image", "circle", "title"]
        )
        assert not [key for key in element.attrib if key.startswith("on")]
        assert element.get("href", "data:image/png").startswith("data:image/png")
    assert len(picture) > 3
    assert not re.search(r"\b(nan|inf|None)\b", bundle[STATIC])


def test_a_static_picture_shows_what_was_planted(trace: mpiprof.Trace) -> None:
    """Ranks 0 to 2 wait 3 of the 4 ms of an instance; rank 3 is last in all instances."""
    picture = drawn(trace.plot.instance())
    waits, works = (boxes(picture, colour) for colour in (colours.WAITING, colours.WORK))
    assert len(waits) == 3 and len(works) == 4
    for wait, work in zip(waits, works, strict=False):
        assert wait["width"] == pytest.approx(3 * work["width"], rel=0.01)
        assert wait["y"] == work["y"]
    (late,) = boxes(drawn(trace.plot.late_ranks()), colours.ORANGE)
    ticks = {
        element.text: float(element.attrib["x"])
        for element in drawn(trace.plot.late_ranks())
        if element.get("text-anchor") == "middle"
    }
    assert late["x"] + late["width"] / 2 == pytest.approx(ticks["3"], abs=0.2)
    first, second = (boxes(drawn(trace.plot.compare(trace)), c) for c in (colours.GREY, "#0072b2"))
    assert [box["width"] for box in first] == [box["width"] for box in second] != []
    texts = [element.text for element in drawn(trace.plot.compare(trace))]
    assert "<script>&.py:93 force" in texts


def test_html_that_needs_scripts_is_left_out(
    trace: mpiprof.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exporters prefer HTML to SVG; it stays if a notebook supports nothing else."""
    both = {INTERACTIVE: {}, "text/html": "<div></div><script>draw()</script>"}
    figure = trace.plot.time()
    for given, kept in ((both, {INTERACTIVE, STATIC}), ({"text/html": ""}, {"text/html"})):
        monkeypatch.setattr(go.Figure, "_repr_mimebundle_", lambda *_, given=given: given)
        assert set(figure._repr_mimebundle_()) == kept


def test_a_notebook_gets_both_and_a_terminal_its_browser(
    trace: mpiprof.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    display = ModuleType("IPython.display")
    display.display = lambda bundle, raw: shown.append((bundle, raw))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    figure = trace.plot.time()
    figure._ipython_display_()
    ((bundle, raw),) = shown
    assert raw and set(bundle) == {INTERACTIVE, STATIC}
    monkeypatch.setattr(pio, "show", lambda one, *_, **__: shown.append(one))
    pio.renderers.default = "browser"
    figure._ipython_display_()
    assert len(shown) == 2 and shown[1] is figure
