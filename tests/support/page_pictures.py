"""Reviewed pictures of pages, and the comparison of a page with its picture."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from mpiprof.trace.types import Float
from support import ROOT
from support.dashboard_server import SCREENSHOTS

REVIEWED = ROOT / "tests" / "browser" / "pictures"
OUTLINE = "timeline-outline"  # picture of a page of which nothing has been loaded
COLOURS = 64  # of a reviewed picture
# Means of blocks are compared, because edges of letters depend on the version of the browser.
BLOCK_PX = 4
LARGEST_DIFFERENCE = 24  # of the red, green or blue of a block, of 255
LARGEST_SHARE = 0.01  # of the blocks that may differ more: some words and numbers
RENEWED_SHARE = LARGEST_SHARE / 4
RENEW = "make screenshots   (then look at the pictures before you commit them)"


def reduce_colours(picture: Image.Image) -> Image.Image:
    """Return a picture with few colours, which makes a small file."""
    return picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def find_differences(picture: Image.Image, reviewed: Image.Image) -> Float:
    """Return for each block of two pictures of equal size the largest difference of a channel."""
    means = []
    for one in (picture, reviewed):
        pixels = np.asarray(one.convert("RGB"), np.float64)
        high, wide = (length - length % BLOCK_PX for length in pixels.shape[:2])
        blocks = pixels[:high, :wide].reshape(high // BLOCK_PX, BLOCK_PX, -1, BLOCK_PX, 3)
        means.append(blocks.mean((1, 3)))
    result: Float = np.abs(means[0] - means[1]).max(2)
    return result


def draw_differences(picture: Image.Image, different: Float) -> Image.Image:
    """Return a pale picture with the blocks that differ in red."""
    shown = np.asarray(picture.convert("L").convert("RGB")) // 3 + 170
    marks = np.kron(different > LARGEST_DIFFERENCE, np.ones((BLOCK_PX, BLOCK_PX), bool))
    shown[: marks.shape[0], : marks.shape[1]][marks] = (214, 40, 0)
    return Image.fromarray(shown.astype(np.uint8))


def compare_picture(png: bytes, name: str, *, renew: bool = False) -> str:
    """Compare a screenshot with the reviewed picture; return the fault, or "" if they agree.

    renew: store the screenshot as the reviewed picture if they differ more than by a time or a
    process number. Otherwise small changes would add up over time until the pictures disagree.
    """
    path, taken = REVIEWED / f"{name}.png", Image.open(BytesIO(png))
    fault = _find_fault(taken, path, RENEWED_SHARE if renew else LARGEST_SHARE)
    if not fault or not renew:
        return fault
    REVIEWED.mkdir(exist_ok=True)
    reduce_colours(taken).save(path, optimize=True)
    return ""


def _find_fault(taken: Image.Image, path: Path, largest_share: float) -> str:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    stored = SCREENSHOTS / path.name
    if not path.exists():
        taken.save(stored)
        return f"{path.relative_to(ROOT)} does not exist; the page is {stored}; store it: {RENEW}"
    with Image.open(path) as reviewed:
        if taken.size != reviewed.size:
            taken.save(stored)
            sizes = f"{taken.size} px instead of {reviewed.size} px"
            return f"{path.name}: the page has {sizes}, see {stored}; to accept it: {RENEW}"
        different = find_differences(taken, reviewed)
    share = float((different > LARGEST_DIFFERENCE).mean())
    if share <= largest_share:
        return ""
    taken.save(stored)
    marked = stored.with_name(f"{path.stem}-difference.png")
    draw_differences(taken, different).save(marked)
    return (
        f"{path.name}: {share:.1%} of the page differ from {path.relative_to(ROOT)}, marked in "
        f"{marked}; the page is {stored}; to accept it: {RENEW}"
    )
