"""Verdicts on single claims of the papers, for tests with known answers."""

from __future__ import annotations

import sys

from mpiprof.collectives.papers.reports import import_paper
from mpiprof.collectives.papers.reports.claim_rules import make_claim, read_claims
from mpiprof.collectives.papers.reports.exhibits import ClaimVerdict, Results


def judge_claim(paper: str, text: str, results: Results) -> ClaimVerdict:
    """Return the verdict on the first claim whose text begins with these words."""
    claims = [claim for exhibit in import_paper(paper).exhibits for claim in exhibit.claims]
    return next(claim for claim in claims if claim.text.startswith(text)).check(results)


def judge_rule(paper: str, results: Results, rule: str, *arguments: object) -> ClaimVerdict:
    """Return the verdict of a rule with these arguments."""
    import_paper(paper)
    functions: dict[str, object] = {}
    for module in [name for name in sys.modules if f".papers.reports.{paper}" in name]:
        functions |= vars(sys.modules[module])
    entry = {"text": "", "rule": [rule, *arguments]}
    return make_claim(entry, read_claims(paper)["rules"], functions).check(results)
