"""Changes of the processors that ranks of a simulated program may use."""

from __future__ import annotations

from support.synthetic import Synthetic


def add_affinity(
    synthetic: Synthetic, rank: int, at: int, allowed: list[int], runs_on: int
) -> None:
    """Bind a rank to some processors, on one of which it runs from then on."""
    local = int(synthetic.to_local(rank, at))
    change = {"after_ns": local, "at_ns": local, "processors": allowed}
    synthetic.lines[rank].append({"rank": rank, "affinity": change})
    synthetic.running_on[rank] = runs_on


def add_quota(synthetic: Synthetic, rank: int, at: int, processors: float, stopped_ns: int) -> None:
    """Add a reading of the quota of a rank's control group."""
    use = {
        "at_ns": int(synthetic.to_local(rank, at)),
        "processors": processors,
        "stopped_ns": stopped_ns,
        "group": f"/job/{rank}",
    }
    synthetic.lines[rank].append({"rank": rank, "quota": use})
