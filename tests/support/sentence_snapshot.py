"""Snapshot of all sentences: `python -m support.sentence_snapshot [--renew]`.

Sentences are made by the functions of WORDS. The command writes traces of typical situations, makes
the reports on them, and records the texts that these functions return. unit/sentences.md lists
them by function, each with the first situation in which it was made, for a review of changed
wording. --renew writes the file. The exit code is 1 if the file differs.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from support import ROOT
from support.sentence_situations import write_situations

FILE = ROOT / "tests" / "unit" / "sentences.md"
WORDS = ("mpiprof/reports/words", "mpiprof/hang/words")
# Tables, single words, and functions whose text is also that of another function.
NO_SENTENCES = {
    *("place_table", "cause_table", "scaling_text", "explanation_text", "share_in_words"),
    *("join_texts", "join_phrases", "signed_time", "format_times", "format_time_change"),
    *("state_findings", "trace_verdict", "fault_line", "instance_counts", "find_repeated"),
}
TEXT_TYPES = ("str", "Phrases", "Words", "Phrase", "SavingText", "Line", "Fact")
MIN_PART = 30  # characters of a text that another text contains
MAX_COMPOSED = 3  # texts of one function that contain texts of other functions
WIDTH = 100
# Texts that differ in these only are one sentence.
CALL_SITE = re.compile(r"\w+ at \S+:\d+(?: \w+)?")
NUMBERS = re.compile(r"\d[\d.,]*(?:-\d+)?(?: (?:ns|µs|ms|s|%|B|KiB|MiB)\b)?")
HEAD = """# Sentences of the reports

Made by `python -m support.sentence_snapshot --renew` in `tests`. Each entry is a situation of
`support/sentence_situations.py` and a text that the function returns there.
"""

Texts = dict[str, dict[str, str]]  # situation by text, by "module.function"


def list_functions() -> dict[str, str]:
    """Return the public functions and methods that return text, and their files, by name."""
    functions = {}
    for folder in WORDS:
        for path in sorted((ROOT / folder).glob("*.py")):
            tree = ast.parse(path.read_text())
            bodies = [
                tree.body,
                *(node.body for node in tree.body if isinstance(node, ast.ClassDef)),
            ]
            nodes = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef)]
            for node in nodes:
                if _returns_text(node) and node.name not in NO_SENTENCES:
                    functions[f"{path.stem}.{node.name}"] = str(path)
    return functions


def _returns_text(node: ast.FunctionDef) -> bool:
    """Return whether a public function returns text, or a container of texts."""
    if node.name.startswith("_") or node.returns is None:
        return False
    names = {part.id for part in ast.walk(node.returns) if isinstance(part, ast.Name)}
    return bool(names & {*TEXT_TYPES}) and not names & {"Any", "bool", "float", "int"}


def list_constants() -> Texts:
    """Return the sentences that are constants: captions, legends and fixed advice."""
    texts: Texts = {}
    for folder in WORDS:
        for path in sorted((ROOT / folder).glob("*.py")):
            module = import_module(
                ".".join((*folder.split("/"), path.stem)).removesuffix(".__init__")
            )
            for constant, value in vars(module).items():
                if constant.isupper() and isinstance(value, str) and value.count(" ") > 3:
                    texts.setdefault(f"{path.stem}: constants", {}).setdefault(value, constant)
    return texts


class Recorder:
    """Records the texts that the functions of WORDS return while it is active."""

    def __init__(self) -> None:
        functions = list_functions()
        self._names = {(path, name.partition(".")[2]): name for name, path in functions.items()}
        self._situation = ""
        self.texts: Texts = {name: {} for name in functions}

    def record(self, situation: str, make: Callable[[], object]) -> None:
        """Record the texts of one situation."""
        self._situation = situation
        sys.setprofile(self._handle)
        try:
            make()
        finally:
            sys.setprofile(None)

    def _handle(self, frame: FrameType, event: str, returned: Any) -> None:
        if event != "return" or returned is None:
            return
        code = frame.f_code
        name = self._names.get((code.co_filename, code.co_name))
        if name is not None:
            for text in _list_texts(returned):
                self.texts[name].setdefault(text, self._situation)


def _list_texts(value: Any) -> Iterator[str]:
    """Yield the texts of a returned value, each on one line."""
    if isinstance(value, str):
        if value.strip():
            yield " ".join(value.split())
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _list_texts(part))
    elif isinstance(value, list | tuple) and value and isinstance(value[0], tuple):
        yield "".join(phrase[0] for phrase in value)  # styled phrases
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in _list_texts(part))
    elif hasattr(value, "__dataclass_fields__"):
        parts = [part for part in vars(value).values() if isinstance(part, str) and part]
        yield " | ".join(parts)


def make_snapshot() -> str:
    """Return the text of the file."""
    recorder, start = Recorder(), Path.cwd()
    with tempfile.TemporaryDirectory(prefix="mpiprof-sentences-") as folder:
        os.chdir(folder)  # sentences name traces as the user does
        try:
            for situation, reports in write_situations(Path()):
                for report in reports:
                    recorder.record(situation, report)
        finally:
            os.chdir(start)
    return format_snapshot(recorder.texts | list_constants())


def choose_texts(texts: Texts) -> Texts:
    """Return one text of each sentence, and a few of those that contain another function's text."""
    result: Texts = {}
    for name, situations in texts.items():
        texts_of_others = (texts[key] for key in texts if key != name)
        parts = {text.lower() for group in texts_of_others for text in group}
        parts = {part for part in parts if len(part) >= MIN_PART}
        chosen: dict[str, str] = {}
        sentences: set[str] = set()
        composed = 0
        for text, situation in situations.items():
            sentence = NUMBERS.sub("1", CALL_SITE.sub("call", text))
            contains = any(part in text.lower() and len(part) < len(text) for part in parts)
            if sentence not in sentences and not (contains and composed == MAX_COMPOSED):
                sentences.add(sentence)
                composed += contains
                chosen[text] = situation
        result[name] = chosen
    return result


def format_snapshot(texts: Texts) -> str:
    """Return texts in Markdown, by function."""
    parts = [HEAD]
    for name, situations in choose_texts(texts).items():
        lines = [
            textwrap.fill(
                f"- {situation}: {text}",
                WIDTH,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            for text, situation in situations.items()
        ]
        parts.append("\n".join([f"## {name}", "", *lines]) + "\n")
    return "\n".join(parts)


def command() -> int:
    """Compare the snapshot with its file, or renew the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renew", action="store_true", help="write the file")
    args = parser.parse_args()
    made, stored = make_snapshot(), FILE.read_text() if FILE.exists() else ""
    if args.renew:
        FILE.write_text(made)
        return 0
    lines = difflib.unified_diff(stored.splitlines(), made.splitlines(), "stored", "made", n=1)
    print("\n".join(lines))
    return int(made != stored)


if __name__ == "__main__":
    sys.exit(command())
