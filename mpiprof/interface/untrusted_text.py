"""Texts and JSON that somebody else may have written, as traces and plans are.

Every text of a trace passes `clean_text`. Such a text contains no character that a terminal
executes, that changes the direction of the surrounding text, or that ends a line.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LARGEST_INTEGER = 1 << 64
_SPACES = re.compile("[\t-\r\x85\u2028\u2029]+")  # tabs and line breaks
# Control characters, bytes that are no text (surrogates), and invisible characters that reorder or
# hide text. Joiners (U+200C and U+200D) belong to ordinary words and remain.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# JSON that contains none of these bytes has no unsafe text: control characters are escaped in it.
_SUSPICIOUS = re.compile(rb"[\\\x7f-\xff]")


def clean_text(text: str) -> str:
    """Return a text with a space for line breaks and tabs, and U+FFFD for other unsafe characters.

    Other characters, such as accented letters, ideographs and emoji, remain.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(REPLACEMENT, _SPACES.sub(" ", text))


def decode_text(content: bytes) -> str:
    """Return the text of a file with its line breaks and tabs, and else as `clean_text` does."""
    lines = content.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(clean_text, line.split("\t"))) for line in lines)


def parse_json(content: bytes | str) -> Any:
    """Return the value of JSON, with clean texts and finite numbers; raises ValueError.

    Integers have at most 64 bits, so that each integer can be converted to a float.
    """
    encoded = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    text = encoded.decode("utf-8", "replace")
    try:
        value = _DECODER.decode(text)
        return _clean_value(value) if _SUSPICIOUS.search(encoded) else value
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean_value(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _clean_value(item) for key, item in value.items()}
    return value


def _parse_integer(digits: str) -> int:
    value = int(digits)
    if abs(value) >= LARGEST_INTEGER:
        raise ValueError(f"{digits:.20} is too large")
    return value


def _parse_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits:.20} is too large")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(
    parse_int=_parse_integer, parse_float=_parse_float, parse_constant=_refuse_constant
)
