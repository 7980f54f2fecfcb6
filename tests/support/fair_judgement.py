"""Judgement of a report on a fair program: nobody may be accused, but by a true fact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpiprof.causes.finding import MIN_CERTAINTY, Finding, is_blamed
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion
from mpiprof.trace import Trace
from support.cause_judgement import MAX_SAVING_ERROR, named_ranks
from support.planted_loops import PlantedLoop


def find_false_accusation(trace: Trace, loop: PlantedLoop) -> str:
    """Return the sentence or finding that accuses somebody falsely, or "".

    A fact that the program has without its noise, too, or that ends with one value of its noise, is
    true.
    """
    findings = trace.findings()
    lines = conclusion.verdict_lines(trace, make_verdict(trace, findings))
    true_facts = [one for one in findings if one.fact and is_true(one, loop)]
    findings = [one for one in findings if one not in true_facts]
    if true_facts and not any(one.ranks and is_blamed(one) for one in findings):
        return ""
    for finding in findings:
        if finding.ranks and finding.certainty >= MIN_CERTAINTY:
            share = f"p = {1 - finding.certainty:.1g}, {finding.share:.1%}"
            return f"{finding.cause} {list(finding.ranks)} ({share})"
    accusing = [line for line in lines if named_ranks(line)]
    return accusing[0] if accusing else ""


def is_true(finding: Finding, loop: PlantedLoop) -> bool:
    """Return whether a fact saves the time that the program saves without it.

    A serial section ends without all work of its ranks at one place, and events with usual work
    instead of the longest work of their ranks.
    """
    ranks, of_ranks = list(finding.ranks), list(getattr(finding.fact, "of_ranks", ()))
    if not ranks and not of_ranks:
        return False
    candidates = []
    if finding.cause in ("serial_section", "unequal_groups"):
        for place in range(loop.noise.shape[1]):
            candidates.append(loop.noise.copy())
            candidates[-1][:, place, ranks] = 0.0
    else:
        candidates.append(loop.noise.copy())
        usual, times = np.median(loop.noise), len(getattr(finding.fact, "times_ns", [0]))
        for group in [[rank] for rank in ranks] or [of_ranks]:
            values = candidates[0][..., group]
            candidates[0][..., group] = np.where(
                values >= np.sort(values, None)[-times], usual, values
            )
    run_ns = loop.build().now_ns.max()
    savings = [run_ns - replace(loop, noise=noise).build().now_ns.max() for noise in candidates]
    return any(
        abs(finding.saved_ns - saved) <= MAX_SAVING_ERROR * max(saved, 1) for saved in savings
    )
