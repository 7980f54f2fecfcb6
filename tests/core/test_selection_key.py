"""Duplicates inherit the choices of their parent; programs/selection_key_inherit.c calls key.c."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import of_the_core
from support.jobs import run


@pytest.mark.heavy
def test_a_duplicate_inherits_each_choice(tmp_path: Path) -> None:
    """Algorithms of the catalogue and of the library are inherited, by the key that has them."""
    parts = ("selection/online/key", "base/hash", "base/memory")
    program = of_the_core(tmp_path / "inherit", parts, source="selection_key_inherit.c")
    chosen = run([program], check=True).stdout.split()
    assert chosen == ["none", "linear", "none", "ring", "tree"]
