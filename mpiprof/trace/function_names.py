"""Short names of C++ functions for people; JSON and patterns keep the whole signature."""

from __future__ import annotations

import re

OPERATOR_PATTERN = re.compile(r"\boperator\b\s*(\(\)|[^\w\s(]+|[^(]+)")
ANONYMOUS = "(anonymous namespace)"
LAMBDA_PATTERN = re.compile(r"\{lambda\([^{}]*\)#(\d+)\}")
OFFSET_PATTERN = re.compile(r"\+0x[0-9a-f]+$")


def shorten_function(function: str) -> str:
    """Return a C++ function without its parameters, template arguments and return type.

    Other names have no parameters and are returned unchanged.
    """
    if "(" not in function:
        return function
    offset = OFFSET_PATTERN.search(function)
    signature = function[: offset.start()] if offset else function
    signature = signature.replace(ANONYMOUS, "{anonymous}")
    signature = LAMBDA_PATTERN.sub(r"{lambda#\1}", signature)
    operator = OPERATOR_PATTERN.search(signature)
    name = signature[: operator.start()] if operator else signature
    name = _drop_brackets(name)
    name = _drop_return_type(name if operator else name.strip())
    name += operator[0].strip() if operator else ""
    short = f"{name}{offset[0] if offset else ''}"
    return short if name.strip(": ") else function


def _drop_brackets(name: str) -> str:
    """Return a name up to its parameters, without template arguments."""
    depth, kept = 0, []
    for character in name:
        if character == "(" and not depth:
            break
        depth += (character in "<(") - (character in ">)")
        if not depth and character not in ">)":
            kept.append(character)
    return "".join(kept)


def _drop_return_type(name: str) -> str:
    """Return a name without the words before it."""
    return name.rpartition(" ")[2]
