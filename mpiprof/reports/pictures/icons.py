"""Brand and icons of controls and causes, 14 px square, in the colour of the text around them."""

from __future__ import annotations

from mpiprof.interface.svg import fill

ICONS = {
    "filter": "M1.5 3h11M3.5 7h7M5.5 11h3",
    "search": "M6 2a4 4 0 1 0 .01 0M9 9l4 4",
    "theme": "M7 1.5a5.5 5.5 0 1 0 .01 0M7 1.5v11a5.5 5.5 0 0 0 0-11z",
    "processor": "M3.5 3.5h7v7h-7zM5.5 1v2.5M8.5 1v2.5M5.5 10.5V13M8.5 10.5V13M1 5.5h2.5M1 8.5h2.5"
    "M10.5 5.5H13M10.5 8.5H13",
    "paused": "M7 1.5a5.5 5.5 0 1 0 .01 0M5.5 4.7v4.6M8.5 4.7v4.6",
    "algorithm": "M1 4h3l6 6h3M1 10h3l2-2M8 6l2-2h3M11 2l2 2-2 2M11 8l2 2-2 2",
    "message": "M1.5 3.5h11v7.5h-11zM1.5 4l5.5 4 5.5-4",
    "barrier": "M7 1v12M1 4h3M1 7h3M1 10h3M10 4h3M10 7h3M10 10h3",
    "clock": "M7 1.5a5.5 5.5 0 1 0 .01 0M7 4v3.2l2.2 1.4",
    "unknown": "M4.5 5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.8-1.1 1.6M7 11.2v.6",
}


def draw_icon(name: str) -> str:
    """Return an icon of ICONS; the text beside it says the same, so it has no label."""
    filled = ' fill="currentColor"' if name == "theme" else ""
    path = ICONS[name]
    if filled:
        first, second = path.split("M7 1.5v", 1)
        path, half = first, f'<path d="M7 1.5v{second}"{filled}/>'
    else:
        half = ""
    return (
        '<svg viewBox="0 0 14 14" width="14" height="14" '
        'fill="none" stroke="currentColor" stroke-width="1.4" aria-hidden="true">'
        f'<path d="{path}"/>{half}</svg>'
    )


def draw_brand() -> str:
    """Return the brand: three ranks, of which one is late."""
    return (
        '<svg viewBox="0 0 16 16" width="16" height="16" '
        f'aria-hidden="true"><rect y="1" width="9" height="3" {fill("q3")}/>'
        f'<rect y="6.5" width="16" height="3" {fill("late")}/>'
        f'<rect y="12" width="9" height="3" {fill("q3")}/></svg>'
    )
