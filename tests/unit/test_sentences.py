"""The sentences of all reports are those that were reviewed last, and each function has one."""

from __future__ import annotations

import difflib
import re

import pytest
from support.sentence_snapshot import FILE, list_functions, make_snapshot

RENEW = "review the difference, and run `python -m support.sentence_snapshot --renew` in tests"


@pytest.mark.heavy
def test_sentences_are_as_reviewed() -> None:
    stored, made = FILE.read_text().splitlines(), make_snapshot().splitlines()
    difference = "\n".join(difflib.unified_diff(stored, made, "stored", "made", n=1))
    assert not difference, f"{RENEW}:\n{difference}"


def test_each_function_has_a_sentence() -> None:
    sections = re.findall(r"^## (\S+)\n\n(- .*)?", FILE.read_text(), re.MULTILINE)
    assert {name for name, first in sections if first} >= list_functions().keys()
