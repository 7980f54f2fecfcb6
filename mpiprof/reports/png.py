"""Pictures with small palettes as PNG: a few kilobytes instead of megabytes of SVG."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

Colour = tuple[int, int, int, int]  # red, green, blue, opacity


def encode(pixels: Any, palette: Sequence[Colour]) -> bytes:
    """Return a PNG; pixels (rows x columns) are indices into at most 256 colours."""
    rows, columns = pixels.shape
    lines = np.zeros((rows, columns + 1), np.uint8)  # each row begins with its filter type: none
    lines[:, 1:] = pixels
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(bytes(colour[:3]) for colour in palette)),
        (b"tRNS", bytes(colour[3] for colour in palette)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def address(picture: bytes) -> str:
    """Return a picture as a data URL."""
    return "data:image/png;base64," + base64.b64encode(picture).decode()
