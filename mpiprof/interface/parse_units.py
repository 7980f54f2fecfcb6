"""Parses numbers, sizes and times as a user types them: 64K, 1.5M, 200us, 5ms."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Callable, Sequence

from mpiprof.errors import UsageError

SIZES = {"": 1, "B": 1, "K": 2**10, "KB": 2**10, "M": 2**20, "MB": 2**20, "G": 2**30, "GB": 2**30}
TIMES = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
MAX_BUDGET_S = 24 * 3600.0
MAX_NUMBER = 2**31 - 1  # limit of the int counts of MPI and the recorder
NUMBER_PATTERN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Zµ]*)")


def parse_positive(text: str) -> int:
    """Convert an option's value to a number above 0."""
    value = 0
    with contextlib.suppress(ValueError):
        value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    if value > MAX_NUMBER:
        raise argparse.ArgumentTypeError(f"{text} is more than {MAX_NUMBER}")
    return value


def number_parser(least: int, most: int) -> Callable[[str], int]:
    """Return a function that converts an option's value to a number in a range."""

    def convert(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: not a number from {least} to {most}")
        return int(text)

    return convert


def parse_size(text: str) -> int:
    """Convert an option's value to bytes; K, M and G are powers of 1024."""
    match = NUMBER_PATTERN.fullmatch(text.strip())
    if match and match[2].upper() in SIZES:
        value = float(match[1]) * SIZES[match[2].upper()]
        if value.is_integer():
            return int(value)
    raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 100, 64K or 1.5M")


def parse_sizes(text: str) -> tuple[int, ...]:
    """Convert 1,64K,1M to bytes, none of them 0."""
    sizes = tuple(parse_size(word) for word in text.split(","))
    if 0 in sizes:
        raise argparse.ArgumentTypeError(f"{text!r}: not a size above 0, such as 64K or 1M")
    return sizes


def parse_duration(text: str) -> float:
    """Convert an option's value to ns; 0 needs no unit."""
    match = NUMBER_PATTERN.fullmatch(text.strip())
    if match and (match[2] in TIMES or float(match[1]) == 0 == len(match[2])):
        return float(match[1]) * TIMES.get(match[2], 0.0)
    raise argparse.ArgumentTypeError(f"{text!r} is not a time, such as 200us, 5ms or 1s")


def parse_arrivals(text: str, size: int) -> list[float]:
    """Return the arrival of each of so many processes in ns.

    `text` is a list by rank. Omitted ranks, at the end or as "..", arrive at 0. RANK=TIME sets one
    rank.
    """
    result = [0.0] * size
    words = [word.strip() for word in text.split(",")]
    if words[-1] in ("..", "...", "…"):
        words.pop()
    for i, word in enumerate(words):
        before, equals, time = word.rpartition("=")
        rank = before.strip() if equals else str(i)
        if not rank.isdecimal() or int(rank) >= size:
            raise UsageError(f"--arrivals {word}: ranks range from 0 to {size - 1}")
        try:
            result[int(rank)] = parse_duration(time)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--arrivals: {error}") from None
    return result


def parse_parameters(words: Sequence[str]) -> dict[str, str | int]:
    """Return NAME=VALUE pairs, separated by commas or colons; sizes become numbers."""
    parameters: dict[str, str | int] = {}
    for word in re.split("[,:]", ",".join(words)) if words else []:
        name, equals, value = word.strip().partition("=")
        if not equals or not value:
            raise UsageError(f"--parameters {word}: not NAME=VALUE, such as block_size=64K")
        try:
            parameters[name] = parse_size(value) if value[:1].isdigit() else value
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--parameters {name}: {error}") from None
        if name == "block_size" and not (isinstance(parameters[name], int) and parameters[name]):
            raise UsageError(f"--parameters {word}: not a size above 0, such as 64K")
    return parameters


def parse_budget(text: str) -> float:
    """Convert 90s, 2m or 1h to seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)", text.strip().lower())
    value = float(match[1]) * SECONDS[match[2]] if match else 0.0
    if not 1 <= value <= MAX_BUDGET_S:
        raise argparse.ArgumentTypeError(f"{text!r}: not a time from 1s to 24h, such as 90s or 2m")
    return value
