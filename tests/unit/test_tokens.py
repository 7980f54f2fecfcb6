"""Design tokens: complete in both themes, readable, and the only copy of the values."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from support import ROOT

from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES, MESSAGE_OPERATIONS, OPERATIONS
from mpiprof.interface import svg, tokens
from mpiprof.trace.types import Float

TEXTS = ("ink", "ink2", "ink3", "late-text", "link", "good")
MARKS = ("late", "early", "q3", *tokens.OPERATIONS)
GROUNDS = ("surface", "bg", "raised", "sunken", "late-wash")
THEMES = {"light": tokens.LIGHT, "dark": tokens.DARK}

# Linear RGB as seen without a kind of cone (Machado, Oliveira and Fernandes 2009, severity 1).
VISION = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# Smallest OKLab distances in the light and in the dark theme; 0.02 is just visible.
LEAST_DISTANCES = [
    ("normal", 0.107, 0.088),
    ("protanopia", 0.069, 0.075),
    ("deuteranopia", 0.069, 0.071),
    ("tritanopia", 0.054, 0.056),
]


def linear_channels(colour: str) -> Float:
    """Return linear red, green and blue between 0 and 1."""
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as defined by WCAG."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(linear_channels(colour) @ weights) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(linear: Float) -> Float:
    """Return a colour in OKLab (Ottosson 2020), from its linear channels."""
    cones = (
        np.array(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ]
        )
        @ linear
    )
    turn = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    result: Float = turn @ np.cbrt(cones)
    return result


@pytest.mark.parametrize("theme", THEMES)
def test_texts_and_marks_have_contrast_with_their_grounds(theme: str) -> None:
    """WCAG requires 4.5 for text, and 3 for marks, hatches and the ring of the focus."""
    pairs = {
        **dict.fromkeys(itertools.product(TEXTS, GROUNDS), 4.5),
        **dict.fromkeys(itertools.product(MARKS, ("surface", "raised")), 3),
        **dict.fromkeys(itertools.product(("hatch", "focus"), GROUNDS), 3),
        ("btn-ink", "btn"): 4.5,
        ("surface", "late"): 4.5,  # text in a bar of late time
    }
    of = THEMES[theme]
    weak = {
        pair: c
        for pair, least in pairs.items()
        if (c := contrast(*(of[name] for name in pair))) < least
    }
    assert weak == {}


@pytest.mark.parametrize(("vision", "least_light", "least_dark"), LEAST_DISTANCES)
def test_operations_and_the_accent_have_different_colours(
    vision: str, least_light: float, least_dark: float
) -> None:
    seen_as = np.array(VISION[vision])
    for colours, least in ((tokens.LIGHT, least_light), (tokens.DARK, least_dark)):
        seen = {
            name: oklab(np.clip(seen_as @ linear_channels(colours[name]), 0, 1))
            for name in (*tokens.OPERATIONS, "late")
        }
        apart = {
            (one, other): float(np.linalg.norm(seen[one] - seen[other]))
            for one, other in itertools.combinations(seen, 2)
        }
        nearest = min(apart, key=apart.__getitem__)
        assert apart[nearest] > least, nearest


def test_each_operation_has_the_colour_of_its_family() -> None:
    names = {name: tokens.name_operation_colour(name) for name in OPERATIONS}
    assert set(names.values()) == set(tokens.OPERATIONS)
    assert names["alltoallw"] == names["neighbor_alltoall"] == "op-alltoallv"
    assert tokens.name_operation_colour("iallreduce") == names["allreduce"] == "op-allreduce"
    others = {tokens.name_operation_colour(name) for name in MANAGEMENT_COLLECTIVES}
    messages = {tokens.name_operation_colour(name) for name in MESSAGE_OPERATIONS}
    assert (others, messages) == ({tokens.OTHER_CALLS}, {tokens.MESSAGE_CALLS})


def test_the_stylesheet_defines_every_variable_of_both_themes() -> None:
    light, _, dark = tokens.make_stylesheet().partition(':root[data-theme="dark"]')
    chosen, _, preferred = dark.partition("@media")
    for name, value in tokens.LIGHT.items():
        assert f"--{name}:{value};" in light
        assert f"--{name}:{tokens.DARK[name]};" in chosen
        assert f"--{name}:{tokens.DARK[name]};" in preferred


def test_styles_use_only_variables_that_the_tokens_define() -> None:
    """Dash and ag-grid define those with their prefixes; `--least` is set on the element."""
    known = set(re.findall(r"--([a-z0-9_-]+):", tokens.make_stylesheet())) | {"least"}
    for path in (ROOT / "dashboard").rglob("*.css"):
        used = set(re.findall(r"var\(--(?!Dash-|ag-)([a-z0-9_-]+)", path.read_text()))
        assert used <= known, f"{path.name} uses {used - known}"


def test_a_picture_has_a_label_its_hatches_and_no_text_of_a_trace_as_markup() -> None:
    parts = [
        svg.make_rectangle(0, 0, 10, 20, svg.hatch("late")),
        svg.make_rectangle(0, 0, 10, 2, svg.hatch("q3", 2)),
        svg.make_text(0, 9, "<b>&"),
        svg.make_dimension(0, 200, 9, "36.4 ms"),
    ]
    drawn = svg.make_picture(20, 20, 'rank "7" & <late>', parts)
    root = ElementTree.fromstring(tokens.resolve_colours(drawn, dark=True))
    assert (root.get("role"), root.get("aria-label")) == ("img", 'rank "7" & <late>')
    space = "{http://www.w3.org/2000/svg}"
    (hatch,) = (str(pattern.get("id")) for pattern in root.iter(f"{space}pattern"))
    assert hatch.startswith("hatch-late-") and f'fill="url(#{hatch})"' in drawn
    assert "<b>&" in [text.text for text in root.iter(f"{space}text")]
    assert "var(" not in ElementTree.tostring(root, "unicode")
    assert tokens.DARK["late"] in ElementTree.tostring(root, "unicode")


def test_waiting_is_distinguishable_in_grey() -> None:
    """On paper without colours, a hatched call differs from a filled one by its lightness."""
    flat = tokens.TOKENS["hatch"]["then_flat_opacity"]
    for operation in tokens.TOKENS["operation"]["light"]:
        name = tokens.name_operation_colour(operation)
        waiting = tokens.mix_colours("surface", name, flat)
        assert tokens.compute_contrast(waiting, tokens.get_colour(name)) >= 2
