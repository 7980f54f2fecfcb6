"""Statements of the papers: each has a section, a place and a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from mpiprof.collectives.papers.reports import PAPERS
from mpiprof.collectives.papers.reports.exhibits import Paper, Statement, read_statements
from mpiprof.collectives.papers.reports.paper_report import (
    STATEMENT_COLUMNS,
    PaperReport,
    make_claims_table,
)
from mpiprof.collectives.schedule import load_catalogue

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAPERS)
def test_every_statement_has_a_test(name: str) -> None:
    statements = read_statements(name)
    assert len({one.text for one in statements}) == len(statements) > 0
    for one in statements:
        file, test = one.test.split("::")
        body = ast.parse((ROOT / file).read_text("utf-8")).body
        assert test in {part.name for part in body if isinstance(part, ast.FunctionDef)}, one
        assert re.fullmatch(r"\d(\.\d)?", one.section) and one.place, one


@pytest.mark.parametrize("name", PAPERS)
def test_every_algorithm_of_a_statement_is_in_the_catalogue(name: str) -> None:
    operations = {algorithm.operation for algorithm in load_catalogue()}
    known = {(algorithm.operation, algorithm.name) for algorithm in load_catalogue()}
    named = [
        (operation, algorithm)
        for one in read_statements(name)
        for operation, algorithm in re.findall(r"`(\w+) (\w+)[^`]*`", one.place)
        if operation in operations
    ]
    assert named and set(named) <= known


def test_statements_as_a_table_of_the_documentation() -> None:
    report = PaperReport(Paper("kang", "Somebody 2000", "", {}, []), [], 0, quick=True)
    one = Statement("4", "It is so.", "`allgather kang`", "tests/unit/test_a.py::test_b")
    lines = make_claims_table(report, [one]).splitlines()
    assert lines[2].startswith("1 definitions, algorithms and formulas hold")
    assert lines[4] == f"| {' | '.join(STATEMENT_COLUMNS)} |"
    assert lines[6] == "| 4 | It is so. | `allgather kang` | `tests/unit/test_a.py::test_b` |"
