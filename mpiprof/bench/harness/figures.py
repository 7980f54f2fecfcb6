"""Figures of the studies, drawn by matplotlib as SVG, PNG or PDF.

A study returns descriptions of its figures, so that only the process that writes them imports
matplotlib.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mpiprof.errors import MpiprofError
from mpiprof.interface.installation import install_command
from mpiprof.interface.svg import CYCLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png", "pdf")
DOTS_PER_INCH = 200


@dataclass(frozen=True)
class Series:
    """A line: its name, its points, and optionally half of the interval of each y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    half: Sequence[float] = ()

    @classmethod
    def of_points(cls, name: str, points: Iterable[tuple[float, float]]) -> Series:
        """Return the line through some points."""
        return cls(name, *map(list, zip(*points, strict=True)))


@dataclass(frozen=True)
class Lines:
    """Series over an axis; `ticks` formats the values of the x axis, at which the ticks are."""

    title: str
    series: Sequence[Series]
    x_label: str
    y_label: str
    x_scale: str = "log"
    y_scale: str = "log"
    ticks: Callable[[float], str] | None = None

    def draw(self, axes: Axes) -> None:
        """Draw the figure."""
        axes.set(xscale=self.x_scale, yscale=self.y_scale)
        for series in self.series:
            half = series.half if len(series.half) else None
            axes.errorbar(
                series.x, series.y, half, label=series.name, marker="o", markersize=3, capsize=2
            )
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        if self.y_scale == "linear":
            axes.set_ylim(bottom=0)
        if self.ticks is not None:
            values = sorted({x for series in self.series for x in series.x})
            axes.set_xticks(values, [self.ticks(x) for x in values])
            axes.minorticks_off()
        axes.grid(alpha=0.4)
        axes.legend(fontsize="small")


@dataclass(frozen=True)
class Bars:
    """Groups of bars, one per series; `text` formats the values of the y axis."""

    title: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float]]
    y_label: str
    text: Callable[[float], str]

    def draw(self, axes: Axes) -> None:
        """Draw the figure."""
        import pandas as pd

        bars = pd.DataFrame(self.series, index=list(self.groups))
        bars.plot.bar(ax=axes, rot=0, color=list(CYCLE), ylabel=self.y_label)
        axes.yaxis.set_major_formatter(lambda value, _: self.text(value))
        axes.grid(axis="y", alpha=0.4)
        axes.legend(fontsize="small")


@dataclass(frozen=True)
class Map:
    """A name in each cell of a table, with one colour for each name."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]

    def draw(self, axes: Axes) -> None:
        """Draw the figure."""
        names = sorted({name for _, cells in self.rows for name in cells})
        for row, (_, cells) in enumerate(self.rows):
            for column, name in enumerate(cells):
                colour = CYCLE[names.index(name) % len(CYCLE)]
                axes.bar(column, 0.9, 0.9, row - 0.45, color=colour, label=name)
        axes.set_xticks(range(len(self.columns)), self.columns)
        axes.set_yticks(range(len(self.rows)), [head for head, _ in self.rows])
        axes.invert_yaxis()
        handles, labels = axes.get_legend_handles_labels()
        shown = dict(zip(labels, handles, strict=True))  # each name once
        axes.legend(shown.values(), shown, loc="upper left", bbox_to_anchor=(1, 1))


Figure = Lines | Bars | Map


def require_matplotlib() -> None:
    """Raise MpiprofError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MpiprofError(f"figures require matplotlib: {install_command('bench')}")


def draw(figure: Figure, file: Path | io.BytesIO, form: str) -> None:
    """Write a figure in one of FORMATS; texts in SVG stay texts."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    # Journals reject PDF files with the default fonts, of type 3.
    with matplotlib.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42}):
        canvas = Canvas(figsize=(6.4, 3.8), layout="constrained")
        axes = canvas.subplots()
        axes.set_prop_cycle(color=CYCLE)
        figure.draw(axes)
        axes.set_title(figure.title, fontsize="medium")
        canvas.savefig(file, format=form, dpi=DOTS_PER_INCH)


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element for a page."""
    file = io.BytesIO()
    draw(figure, file, "svg")
    text = file.getvalue().decode()
    return text[text.index("<svg") :]
