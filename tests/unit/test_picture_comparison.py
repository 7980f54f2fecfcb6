"""The comparison of pages with reviewed pictures: what it accepts and what it refuses."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from support import page_pictures
from support.page_pictures import REVIEWED, compare_picture

MAX_BYTES = 2_000_000


def draw_page(at: int = 40, text: str = "35 % of this run is waiting") -> Image.Image:
    """Return a page with a panel and a sentence."""
    page = Image.new("RGB", (400, 300), "#f7f8f8")
    draw = ImageDraw.Draw(page)
    draw.rectangle((at, 60, at + 200, 200), "#ffffff", "#cdd3d8")
    draw.rectangle((at + 20, 100, at + 120, 120), "#d43f00")
    draw.text((at + 20, 70), text, "#15181c")
    return page


def as_png(page: Image.Image) -> bytes:
    """Return the file of a page."""
    file = BytesIO()
    page.save(file, "png")
    return file.getvalue()


@pytest.fixture(autouse=True)
def reviewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the page as the reviewed picture."""
    monkeypatch.setattr(page_pictures, "REVIEWED", tmp_path / "reviewed")
    monkeypatch.setattr(page_pictures, "SCREENSHOTS", tmp_path / "taken")
    monkeypatch.setattr(page_pictures, "ROOT", tmp_path)
    assert compare_picture(as_png(draw_page()), "page", renew=True) == ""


def test_the_same_page_and_edges_of_letters_are_accepted() -> None:
    assert compare_picture(as_png(draw_page()), "page") == ""
    noise = np.random.default_rng(1).integers(-12, 13, (300, 400, 3))
    pixels = np.clip(np.asarray(draw_page()) + noise, 0, 255).astype(np.uint8)
    assert compare_picture(as_png(Image.fromarray(pixels)), "page") == ""


@pytest.mark.parametrize(
    "page", [draw_page(60), draw_page().convert("L"), Image.new("RGB", (400, 300))]
)
def test_a_moved_a_grey_and_a_blank_page_are_refused(page: Image.Image, tmp_path: Path) -> None:
    fault = compare_picture(as_png(page), "page")
    marked = tmp_path / "taken" / "page-difference.png"
    assert marked.exists() and str(marked) in fault and "make screenshots" in fault
    assert compare_picture(as_png(page), "page", renew=True) == ""
    assert compare_picture(as_png(page), "page") == ""


def test_another_size_and_a_new_page_are_refused() -> None:
    assert "(400, 200) px" in compare_picture(as_png(draw_page().crop((0, 0, 400, 200))), "page")
    assert "does not exist" in compare_picture(as_png(draw_page()), "new")


def test_reviewed_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in REVIEWED.glob("*.png")) < MAX_BYTES
