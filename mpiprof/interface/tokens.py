"""Design tokens: the colours, fonts and sizes of pages and pictures, for a light and a dark theme.

tokens.json is the only copy of the values. CSS uses them as variables: a colour "ink2" is
`var(--ink2)`, an operation "bcast" is `var(--op-bcast)`. `late` is the only accent: it marks late
ranks and the time that others wait for them, nothing else.

Algorithms are more than the tokens have colours. They have the palette of Okabe and Ito, which is
safe for colour blindness.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mpiprof.facts.operations import MESSAGE_OPERATIONS, base_operation

TOKENS: dict[str, Any] = json.loads(Path(__file__).with_name("tokens.json").read_text())
SPACE: list[int] = TOKENS["space"]
SIZE: dict[str, int] = TOKENS["size"]
RADIUS: dict[str, int] = TOKENS["radius"]
FONT, MONO = TOKENS["font"]["sans"], TOKENS["font"]["mono"]
OPERATIONS = tuple(f"op-{name}" for name in TOKENS["operation"]["light"])
MESSAGE_CALLS, OTHER_CALLS = "q3", "ink3"  # colours of message calls and of management collectives

# Okabe and Ito's colours; the yellow is darker here.
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
SKY, RED, OLIVE, GREY = "#56b4e9", "#d55e00", "#a89b00", "#8a94a0"
CYCLE = (BLUE, ORANGE, GREEN, PINK, SKY, RED, OLIVE, GREY)
WAITING, WORK = RED, BLUE


def _theme(name: str) -> dict[str, str]:
    operations = {f"op-{key}": value for key, value in TOKENS["operation"][name].items()}
    return {**TOKENS["color"][name], **operations}


LIGHT, DARK = _theme("light"), _theme("dark")


def get_colour(name: str, *, dark: bool = False) -> str:
    """Return the value of a colour, such as "#15181c", for pictures that cannot use variables."""
    return (DARK if dark else LIGHT)[name]


def mix_colours(ground: str, name: str, part: float, *, dark: bool = False) -> str:
    """Return the colour that a layer of `name` with opacity `part` has on `ground`."""
    values = [get_colour(one, dark=dark) for one in (ground, name)]
    below, above = ([int(value[i : i + 2], 16) for i in (1, 3, 5)] for value in values)
    mixed = (round(a + part * (b - a)) for a, b in zip(below, above, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def choose_ink(ground: str, *, dark: bool = False) -> str:
    """Return the text colour, ink or surface, with the higher contrast on a colour."""
    inks = [get_colour(name, dark=dark) for name in ("ink", "surface")]
    return max(inks, key=lambda ink: compute_contrast(ink, ground))


def compute_contrast(first: str, second: str) -> float:
    """Return the contrast of two colours as WCAG defines it, from 1 to 21."""
    low, high = sorted(map(_compute_luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def _compute_luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def use_colour(name: str) -> str:
    """Return a colour as a CSS variable. Its light value applies where no page defines it."""
    return f"var(--{name},{LIGHT[name]})"


def name_operation_colour(operation: str) -> str:
    """Return the name of an operation's colour, which all variants of the operation share."""
    if operation in MESSAGE_OPERATIONS:
        return MESSAGE_CALLS
    base = base_operation(operation).removeprefix("neighbor_")
    name = f"op-{TOKENS['operation_alias'].get(base, base)}"
    return name if name in LIGHT else OTHER_CALLS


def operation_colour(operation: str, *, dark: bool = False) -> str:
    """Return the colour of an operation, which is the same on all pages and pictures."""
    return get_colour(name_operation_colour(operation), dark=dark)


def resolve_colours(text: str, *, dark: bool = False) -> str:
    """Return text with the values of its CSS variables, for files outside of a page."""
    fonts = {"font": FONT.replace('"', "'"), "mono": MONO.replace('"', "'")}  # in attributes
    values = {**(DARK if dark else LIGHT), **fonts}
    return re.sub(
        r"var\(--([a-z0-9_-]+)(?:,[^()]*)?\)", lambda found: values.get(found[1], found[0]), text
    )


def make_stylesheet() -> str:
    """Return the CSS that defines the variables of both themes.

    The dark theme applies on screens if the page chose it, or if the system prefers it and the page
    did not choose. Paper is light.
    """
    light, dark = (
        "".join(f"--{name}:{value};" for name, value in colours.items())
        for colours in (LIGHT, DARK)
    )
    fonts = f"--font:{FONT};--mono:{MONO};"
    sizes = "".join(f"--{name.replace('_', '-')}:{value}px;" for name, value in SIZE.items())
    sizes += "".join(f"--radius-{name}:{value}px;" for name, value in RADIUS.items())
    texts = "".join(
        f"--text-{name}:{weight} {size}px/{height}px var(--{'mono' if name == 'mono' else 'font'});"
        for name, (size, height, weight) in TOKENS["type"].items()
    )
    chosen = ':root[data-theme="dark"]'
    return (
        f":root{{color-scheme:light;{light}{fonts}{sizes}{texts}}}"
        f"@media screen{{{chosen}{{color-scheme:dark;{dark}}}}}"
        "@media screen and (prefers-color-scheme:dark){html:not([data-theme])"
        f"{{color-scheme:dark;{dark}}}}}"
    )
