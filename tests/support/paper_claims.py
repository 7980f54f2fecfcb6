"""Verdicts on single claims and contents of exhibits of the papers, for known answers."""

from __future__ import annotations

from mpiprof.collectives.papers.reports import import_paper
from mpiprof.collectives.papers.reports.exhibits import ClaimVerdict, Content, Results
from mpiprof.collectives.papers.reports.paper_file import import_functions, make_claim, read_file


def judge_claim(paper: str, text: str, results: Results) -> ClaimVerdict:
    """Return the verdict on the first claim whose text begins with these words."""
    claims = [claim for exhibit in import_paper(paper).exhibits for claim in exhibit.claims]
    return next(claim for claim in claims if claim.text.startswith(text)).check(results)


def show_exhibit(paper: str, number: str, results: Results) -> Content:
    """Return the figures and tables of an exhibit."""
    exhibits = {exhibit.number: exhibit for exhibit in import_paper(paper).exhibits}
    return exhibits[number].show(results)


def judge_rule(paper: str, results: Results, rule: str, *arguments: object) -> ClaimVerdict:
    """Return the verdict of a rule with these arguments."""
    stored = read_file(paper)
    functions = import_functions(stored["modules"])
    entry = {"text": "", "rule": [rule, *arguments]}
    return make_claim(entry, stored["rules"], functions).check(results)
