"""Component that shows SVG text from the server inside the page, so that CSS variables apply."""

from __future__ import annotations

from typing import Any

from dash.development.base_component import Component


class Picture(Component):
    """A picture of mpiprof.reports.pictures; assets/shell.js shows it.

    The text must come from functions that escape all text of the trace.
    """

    _children_props: list[str] = []  # noqa: RUF012 (declared by Dash)
    _base_nodes = ["children"]  # noqa: RUF012
    _namespace = "mpiprof"
    _type = "Picture"

    def __init__(self, svg: str, **attributes: Any) -> None:
        self._prop_names = ["id", "svg", "className"]
        self._valid_wildcard_attributes: list[str] = []
        self.available_properties = self._prop_names
        self.available_wildcard_properties = self._valid_wildcard_attributes
        super().__init__(svg=svg, **attributes)  # type: ignore[no-untyped-call]
