"""Addresses in sampled stacks: core/callsite/return_address.c."""

from __future__ import annotations

from pathlib import Path

from support.compilation import of_the_core
from support.jobs import run


def test_only_an_address_after_a_call_passes(tmp_path: Path) -> None:
    """After a call; in a part of an object that is not readable; near zero; outside of objects."""
    program = of_the_core(
        tmp_path / "program", ["callsite/return_address"], source="callsite_return_address.c"
    )
    assert run([program], check=True).stdout.split() == ["1", "0", "0", "0"]
