"""Names in a trace that somebody has forged: none reaches a terminal or a file as a command.

No control character, no bidirectional mark and no line break of a name is in any output. Ordinary
names in all scripts remain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import mutants

from mpiprof.interface.untrusted_text import REPLACEMENT, clean_text, decode_text, parse_json
from mpiprof.trace.checksum import add_checksum, remove_checksum

FORGED = "FORGED-LINE"
HOSTILE = (
    f"a\x1b]0;owned\x07b\x1b[2Jc\x9b31md\u202egnp\u2066e\u200f\rf\n{FORGED}\u2028{FORGED}\x85"
    f"{FORGED}\x0b{FORGED}\x7f\udc80\ufeff\U000e0041"
)
ORDINARY = "naïve-日本語-Ωmega-مرحبا-👩\u200d💻"  # with a joiner between the emoji
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
# Texts that select the meaning of a line; each is made hostile alone.
STRUCTURE = (
    *("operation", "identity", "record", "kind", "key", "how", "parent", "flags", "format"),
    *("check", "job", "type", "reduction", "messages", "algorithm", "abi", "node"),
)


def test_ordinary_text_remains() -> None:
    assert clean_text(ORDINARY) == ORDINARY
    assert parse_json(json.dumps({ORDINARY: [ORDINARY]})) == {ORDINARY: [ORDINARY]}
    assert decode_text(f"\tif x:\r\n\t\t{ORDINARY}\n".encode()) == f"\tif x:\n\t\t{ORDINARY}\n"


@pytest.mark.parametrize(
    "number", [*range(32), *range(127, 160), 0xAD, 0x61C, *range(0x200E, 0x2010)]
)
def test_every_unsafe_character_is_replaced(number: int) -> None:
    text = f"a{chr(number)}b"
    cleaned = " " if chr(number).isspace() and number not in range(28, 32) else REPLACEMENT
    assert clean_text(text) == f"a{cleaned}b"
    assert parse_json(json.dumps([text])) == [f"a{cleaned}b"]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert parse_json(b'["caf\xe9"]') == [f"caf{REPLACEMENT}"]
    assert parse_json('["\\ud800", "\udce9"]')[0] == REPLACEMENT


def change_texts(value: Any, change: Callable[[str, str], str], name: str = "") -> Any:
    """Return JSON with each text changed by a function of the name of its field, and the text."""
    if isinstance(value, dict):
        return {key: change_texts(item, change, key) for key, item in value.items()}
    if isinstance(value, list):
        return [change_texts(item, change, name) for item in value]
    return change(name, value) if isinstance(value, str) else value


def rewrite(folder: Path, change: Callable[[str, str], str]) -> None:
    """Change the texts of meta.json, of all tables and of the selector's log."""
    for path in (*folder.glob("*.tables"), folder / "meta.json", folder / "selection.jsonl"):
        lines = []
        for line in filter(None, path.read_bytes().split(b"\n")):
            changed = change_texts(json.loads(remove_checksum(line)), change)
            lines.append(add_checksum(json.dumps(changed).encode()) + b"\n")
        path.write_bytes(b"".join(lines))


def check_text(text: str, source: str) -> None:
    """Fail if a text contains an unsafe character, or a line that a name has forged."""
    found = UNSAFE.search(text)
    assert not found, f"{source}: {text[max(found.start() - 80, 0) : found.end() + 40]!r}"
    assert not any(line.startswith(FORGED) for line in text.splitlines()), source


def check_json(value: Any, source: str) -> None:
    """Fail if a text in a JSON value is unsafe."""
    change_texts(value, lambda _, text: check_text(text, source) or text)  # type: ignore[func-returns-value]


def check_all_verbs(folder: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Check the output and the files of all verbs on a trace; return the output."""
    pages: list[str] = []

    def dump(value: Any, **options: Any) -> str:
        pages.append(json.JSONEncoder(**options).encode(value))
        return pages[-1]

    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr("mpiprof.reports.table.terminal_width", lambda: 100_000)
    monkeypatch.setattr("support.mutants.json.dumps", dump)
    turns = max(len(mutants.FORMATS), len(mutants.REPORTS))
    commands: list[list[str]] = []  # of all turns, which repeat most of them
    for seed in range(turns):
        listed = mutants.list_commands(folder, whole, seed)
        commands += [words for words in listed if words[0] != "pack" and words not in commands]
    monkeypatch.setattr(mutants, "list_commands", lambda *_: commands)
    outcome = mutants.run_verbs(folder, whole, 0)
    monkeypatch.undo()
    assert outcome.tracebacks == []
    check_text(outcome.output, "output of the verbs")
    for page in pages:
        check_json(json.loads(page), "a page of view")
    for path in folder.parent.iterdir():
        if path.suffix in (".html", ".md", ".csv"):
            check_text(path.read_text(), path.name)
        elif path.suffix == ".json":
            check_json(json.loads(path.read_text()), path.name)
    return outcome.output


@pytest.mark.slow
def test_free_texts_reach_no_output_as_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mutants.write_seed(tmp_path / "whole")
    folder = mutants.write_seed(tmp_path / "out" / "trace")
    rewrite(folder, lambda name, text: text if name in STRUCTURE else ORDINARY + text + HOSTILE)
    (folder / f"rank-{HOSTILE[:40]}.log").write_bytes(b"no log")
    output = check_all_verbs(folder, whole, monkeypatch)
    assert "naïve-日本語-Ωmega" in output


@pytest.mark.slow
@pytest.mark.parametrize("field", [name for name in STRUCTURE if name != "check"])
def test_texts_with_a_meaning_reach_no_output_as_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    whole = mutants.write_seed(tmp_path / "whole")
    folder = mutants.write_seed(tmp_path / "out" / "trace")
    rewrite(folder, lambda name, text: text + HOSTILE if name == field else text)
    check_all_verbs(folder, whole, monkeypatch)


def test_a_report_of_hostile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with two verbs, as a fast test."""
    folder = mutants.write_seed(tmp_path / "trace")
    rewrite(folder, lambda name, text: text if name in STRUCTURE else ORDINARY + text + HOSTILE)
    commands = [["report", str(folder), "--all"], ["status", str(folder)]]
    monkeypatch.setattr("mpiprof.reports.table.terminal_width", lambda: 100_000)
    monkeypatch.setattr(mutants, "list_commands", lambda *_: commands)
    monkeypatch.setattr(mutants, "view", lambda _: None)
    outcome = mutants.run_verbs(folder, folder, 0)
    assert outcome.tracebacks == []
    check_text(outcome.output, "report and status")
    assert ORDINARY in outcome.output
