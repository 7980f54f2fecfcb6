"""Specifications of causes as they are in the files of tests/causes, and their cases.

A string that begins with "=" is a Python expression. It may use `case` (the number of the case),
`seed`, `steps`, the functions of EXPRESSIONS, and the names under `draw`, which are computed first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from support import ROOT, cause_events, cause_loops, cause_messages, cause_programs, planted_loops
from support.cause_judgement import Expected, make_expected
from support.program import Program

FOLDER = ROOT / "tests" / "causes"
MODULES = (cause_programs, cause_messages, cause_events, cause_loops)  # that have the programs
STEPS = 48
EXPRESSIONS = {"np": np, "generator": lambda *seed: np.random.default_rng(seed)}
EXPRESSIONS |= {name: getattr(planted_loops, name) for name in planted_loops.DELAYS}
SECTION = re.compile(r"^## (?P<title>.+?)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```yaml\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Case:
    """One case of a specification.

    program: name of a function of MODULES. planted: parameters of it that are the cause; empty for
    a program without a cause. repaired: those of the program whose run time the report must state.
    """

    program: str
    parameters: Mapping[str, Any]
    planted: Mapping[str, Any]
    repaired: Mapping[str, Any]
    expected: Expected

    def build(self, **parameters: Any) -> Program:
        """Return the program without the cause, with further parameters."""
        make = next(getattr(of, self.program) for of in MODULES if hasattr(of, self.program))
        program = make(**{**self.parameters, **parameters})
        assert isinstance(program, Program)
        return program


@dataclass(frozen=True)
class Spec:
    """One specification.

    fields: of the YAML. recorded: the text after it. Without `cases`, it has one case.
    """

    file: str
    title: str
    fields: Mapping[str, Any]
    recorded: str

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"

    @property
    def cases(self) -> int:
        """Return the number of cases."""
        return int(self.fields.get("cases", 1))

    @property
    def has_cause(self) -> bool:
        """Return whether a cause is planted."""
        return bool(self.fields.get("planted"))

    @property
    def today(self) -> str:
        """Return the class of the judgement, if it is not right, and the reason."""
        return str(self.fields.get("today", ""))

    def make_case(self, case: int = 0, seed: int = 1, steps: int = STEPS) -> Case:
        """Return a case; seed: of all random choices. steps: number of steps by default."""
        names = {**EXPRESSIONS, "case": case, "seed": seed, "steps": steps}
        names["pick"] = lambda *values: values[case % len(values)]
        for name, value in self.fields.get("draw", {}).items():
            names[name] = _evaluate(value, names)
        fields = {
            name: _evaluate(value, names)
            for name, value in self.fields.items()
            if name not in ("cases", "draw", "today")
        }
        expected = make_expected(fields.pop("expected", {}))
        program, planted, repaired = (
            fields.pop(name, {}) for name in ("program", "planted", "repaired")
        )
        return Case(program, fields, planted, repaired, expected)


def _evaluate(value: Any, names: Mapping[str, Any]) -> Any:
    """Return a value of the YAML with the values of its expressions."""
    if isinstance(value, dict):
        return {name: _evaluate(part, names) for name, part in value.items()}
    if isinstance(value, list):
        return [_evaluate(part, names) for part in value]
    if isinstance(value, str) and value.startswith("="):
        result = eval(value[1:].strip(), dict(names))
        return result.item() if isinstance(result, np.generic) else result
    return value


def read_specs(paths: Sequence[Path] = ()) -> list[Spec]:
    """Return the specifications in some files, in all files of the folder by default."""
    chosen = paths or [path for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md"]
    return [spec for path in chosen for spec in _read_file(path)]


def find_spec(file: str, title: str) -> Spec:
    """Return the specification with a title."""
    return next(spec for spec in read_specs([FOLDER / f"{file}.md"]) if spec.title == title)


def _read_file(path: Path) -> Iterator[Spec]:
    for section in SECTION.finditer(path.read_text()):
        block = BLOCK.search(section["text"])
        if block is None:
            raise ValueError(f"{path}: {section['title']}: no block of YAML")
        recorded = section["text"][block.end() :].strip()
        yield Spec(path.stem, section["title"], yaml.safe_load(block[1]), recorded)
