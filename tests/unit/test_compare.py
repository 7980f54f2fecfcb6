"""Comparing recordings: matching, differences beyond chance, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.causes.compare import compare, match_callsites
from mpiprof.causes.compare_verdict import Difference, judge_difference
from mpiprof.reports.words.compare_sentences import verdict_paragraphs as in_words
from mpiprof.trace import Trace

MS = 1_000_000
RANKS = 4


def recorded(
    folder: Path,
    late_ms: float = 1.0,
    seed: int = 1,
    lines: tuple[int, ...] = (12, 20),
    algorithm: str = "native",
    count: int = 100,
) -> Trace:
    """Return a trace of an allreduce with rank 2 late, and of a bcast that never changes."""
    synthetic, random = Synthetic(RANKS), np.random.default_rng(seed)
    synthetic.ended_ns = (count + 2) * 40 * MS
    at = (np.arange(count)[:, None] + 1) * 40 * MS + random.normal(5e5, 5e4, (count, RANKS))
    arrivals = np.rint(at + np.array([0, 0, late_ms * MS, 0])).astype(np.int64)
    exits = np.repeat(arrivals.max(1, keepdims=True) + 100_000, RANKS, 1)
    synthetic.add_collective("allreduce", arrivals, exits, site=f"app.py:{lines[0]}:step")
    at = (np.arange(count)[:, None] + 1) * 40 * MS + 20 * MS + random.normal(5e5, 5e4, (count, 4))
    came = np.rint(at).astype(np.int64)
    leave = np.maximum(came, came[:, :1]) + 50_000
    synthetic.add_collective("bcast", came, leave, root=0, site=f"app.py:{lines[1]}:main")
    for rank in range(RANKS):
        for line in synthetic.lines[rank]:
            if line.get("operation") == "allreduce":
                line["algorithm"] = algorithm
    return mpiprof.open(synthetic.write(folder))


def test_real_differences_and_random_differences(tmp_path: Path) -> None:
    first = recorded(tmp_path / "a")
    other = recorded(tmp_path / "b", late_ms=2, seed=2, algorithm="ring")
    table = compare([first, other])
    allreduce, bcast = table.to_dict("records")
    assert (allreduce["operation"], bcast["operation"]) == ("allreduce", "bcast")
    assert allreduce["significant"] and not bcast["significant"]
    waits = [float(t.callsites["wait_ns"][0]) for t in (first, other)]
    assert allreduce["wait_ns_change"] == pytest.approx(waits[1] / waits[0] - 1)
    assert allreduce["wait_ns_p"] < 1e-6 and bcast["wait_ns_p"] > 0.01
    assert (allreduce["algorithm"], allreduce["other_algorithm"]) == ("native", "ring")
    assert set(table["matched"]) == {"line"}


@pytest.mark.heavy
def test_equal_recordings_differ_by_chance_only(tmp_path: Path) -> None:
    """Hardly any of 20 pairs from one distribution differs; the level is 5 % per table."""
    traces = [recorded(tmp_path / str(i), seed=i) for i in range(40)]
    alarms = [
        bool(compare(traces[i : i + 2])["significant"].any()) for i in range(0, len(traces), 2)
    ]
    assert sum(alarms) <= 3


def test_the_same_trace_differs_nowhere(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a")
    table = compare([trace, trace, trace])
    assert table["other"].tolist() == [1, 1, 2, 2]
    assert not table["significant"].any() and (table["wait_ns_change"] == 0).all()


def test_call_sites_with_moved_lines(tmp_path: Path) -> None:
    first = recorded(tmp_path / "a").callsites
    moved = recorded(tmp_path / "b", lines=(15, 20)).callsites
    assert sorted(match_callsites(first, moved)) == [(0, 0, "function"), (1, 1, "line")]
    less = first[first["operation"] == "bcast"]
    assert sorted(match_callsites(less, moved)) == [(-1, 0, ""), (1, 1, "line")]
    assert sorted(match_callsites(first, less)) == [(0, -1, ""), (1, 1, "line")]


def test_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "a")
    recorded(tmp_path / "b", late_ms=2, seed=2, algorithm="ring")
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert main(["compare", a, b]) == 0
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.strip().startswith("allreduce"))
    assert "app.py:12 step" in row and "native → ring" in row and row.count("*") == 3
    printed = " ".join(text.split())
    assert printed.startswith("The run times of A and B differ by no more than chance: 4.08 s")
    assert "In collectives B is slower than A: it takes" in printed
    assert "All of it: allreduce at app.py:12 step. A call takes" in printed
    assert "Of 2 call sites 1 differs by more than chance" in printed
    assert "In B, rank 2 works 2.00 ms longer than the other ranks" in printed
    assert " -m mpiprof report " in text.rstrip().splitlines()[-1]
    assert main(["compare", a, b, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [run["ranks"] for run in data["traces"]] == [4, 4]
    site = {"file": "app.py", "line": 12, "function": "step"}
    assert data["callsites"][0]["sites"] == [site]
    (verdict,) = data["verdicts"]
    assert (verdict["other"], verdict["outcome"]) == (1, "slower")
    assert verdict["sites"] == [{"operation": "allreduce", "sites": [site]}]
    for line in verdict["text"]:  # the same words
        assert " ".join(line.split()) in printed


def judged(*traces: Trace) -> Difference:
    """Return the verdict on two traces."""
    return judge_difference(compare(traces))


def test_the_verdict_has_the_planted_amount_and_direction(tmp_path: Path) -> None:
    """1 ms more for three waiting ranks in 100 instances is 300 ms, all of it wait."""
    a, b = recorded(tmp_path / "a"), recorded(tmp_path / "b", late_ms=2, seed=2)
    worse, better = judged(a, b), judged(b, a)
    assert (worse.outcome, better.outcome) == ("slower", "faster")
    assert worse.effect_ns == pytest.approx(300 * MS, rel=0.03)
    assert better.effect_ns == pytest.approx(-worse.effect_ns)
    assert worse.worst is not None and worse.worst.waiting and worse.best is None
    assert worse.certainty > 0.99
    assert (worse.compared, worse.tested, worse.only) == (2, 2, 0)


def test_the_verdict_without_a_change_or_without_data(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a")
    assert judged(a, a).outcome == "same"
    short = judged(a, recorded(tmp_path / "short", count=3))
    assert (short.outcome, short.tested) == ("unknown", 0)
    moved = judged(a, recorded(tmp_path / "b", seed=1, lines=(12, 99)))
    assert (moved.compared, moved.only) == (2, 0)


def test_recordings_of_different_programs(tmp_path: Path) -> None:
    a, other = recorded(tmp_path / "a"), Synthetic(4)
    other.add_collective("bcast", [[0] * 4], [[MS] * 4], site="other.py:1:main")
    b = mpiprof.open(other.write(tmp_path / "b"))
    verdict = judged(a, b)
    assert (verdict.outcome, verdict.compared) == ("unknown", 0)
    printed = in_words(verdict, [b], before=[a])
    assert printed == ["A and B are not comparable: they have no call site in common."]


def test_one_call_in_common_is_not_too_short(tmp_path: Path) -> None:
    """The two programs share only one final barrier, so longer runs would not help."""
    traces = []
    for name in ("a", "b"):
        synthetic = Synthetic(2)
        at = np.arange(8)[:, None] * MS + np.zeros((1, 2), np.int64)
        synthetic.add_collective("bcast", at, at + 1000, root=0, site=f"{name}.py:1:main")
        synthetic.add_collective(
            "barrier", [[9 * MS] * 2], [[9 * MS + 500] * 2], site="end.py:1:main"
        )
        traces.append(mpiprof.open(synthetic.write(tmp_path / name)))
    verdict = judged(*traces)
    assert (verdict.outcome, verdict.compared, verdict.only) == ("unknown", 1, 2)
    printed = " ".join(in_words(verdict, traces[1:]))
    assert "Only 1 call site can be compared: 2 are in one of the two." in printed
    assert "Compare runs of one program" in printed and "Record longer" not in printed


@pytest.mark.parametrize(("which", "printed"), [("a", "A is a summary"), ("b", "B is a summary"),
                                             ("ab", "A and B are summaries")])  # fmt: skip
def test_sums_are_not_recorded_too_short(
    tmp_path: Path, which: str, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A summary has 100 instances without single values, so a longer recording would not help."""
    a, b = recorded(tmp_path / "a"), recorded(tmp_path / "b", late_ms=2, seed=2)
    for trace in (a, b):
        monkeypatch.setitem(
            trace.meta, "record", "summary" if trace.path.name in which else "events"
        )
    verdict = judged(a, b)
    assert verdict.outcome == "unknown"
    words = in_words(verdict, [b], before=[a])
    assert words[2] == f"{printed}: sums don't tell by how much instances differ by chance."
    assert words[3].startswith("Record events in both, or record each several times, and `compare")
    short = recorded(tmp_path / "c", count=3)
    words = in_words(judged(recorded(tmp_path / "d"), short), [short])
    assert words[1] == "A test needs at least 4 instances in both."
    assert words[2].startswith("Record longer, or record each several times, and `compare A1 ")


def test_summaries_of_several_runs_are_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [recorded(tmp_path / str(i), 1 + i // 3, seed=i) for i in range(6)]
    for trace in runs:
        monkeypatch.setitem(trace.meta, "record", "summary")
    verdict = judge_difference(compare(runs[:3], runs[3:]))
    assert verdict.outcome == "slower"
    assert "sums" not in " ".join(in_words(verdict, runs[3:], 3, before=runs[:3]))


def test_what_is_called_once_is_not_the_same(tmp_path: Path) -> None:
    """The only difference is one final barrier, which takes five times as long."""
    traces = []
    for seed, late in enumerate((10, 50)):
        synthetic, random = Synthetic(4), np.random.default_rng(seed)
        at = (np.arange(60)[:, None] + 1) * MS + random.integers(0, 1000, (60, 4))
        synthetic.add_collective("bcast", at, at + 2000, root=0, site="app.py:1:main")
        came, left = [[100 * MS] * 3 + [(100 + late) * MS]], [[(100 + late) * MS + 500] * 4]
        synthetic.add_collective("barrier", came, left, site="end.py:1:main")
        synthetic.ended_ns = 200 * MS
        traces.append(mpiprof.open(synthetic.write(tmp_path / str(seed))))
    verdict = judged(*traces)
    assert (verdict.outcome, verdict.compared, verdict.tested) == ("unknown", 2, 1)
    assert verdict.untested is not None and verdict.untested["operation"] == "barrier"
    printed = in_words(verdict, traces[1:])
    assert printed[0] == (
        "In collectives, too few instances are recorded to compare B with A. Barrier at end.py:1 "
        "main takes 150 ms instead of 30.0 ms of all ranks' time, and was called too seldom for a "
        "test."
    )
    assert printed[-1].startswith("Record each several times")
    assert "no more than chance" not in " ".join(printed)


def test_as_many_instances_are_compared(tmp_path: Path) -> None:
    """Twice as many instances take twice the time, but no call is slower."""
    a, b = recorded(tmp_path / "a"), recorded(tmp_path / "b", seed=3, count=200)
    verdict = judged(a, b)
    assert verdict.after_ns == pytest.approx(2 * verdict.before_ns, rel=0.05)
    assert verdict.outcome == "same"
    late = judged(a, recorded(tmp_path / "c", late_ms=2, seed=4, count=200))
    assert late.effect_ns == pytest.approx(300 * MS, rel=0.03)


def test_some_slower_and_others_faster(tmp_path: Path) -> None:
    table = compare([recorded(tmp_path / "a"), recorded(tmp_path / "b", late_ms=2, seed=2)])
    first, other = table.index
    turned = table.copy()
    swapped = [c for c in table.columns if c.startswith("other_") and c[6:] in table.columns]
    for column in swapped:  # the second call site's change is the reverse of the first one's
        turned.loc[other, column] = table.loc[first, column[6:]]
        turned.loc[other, column[6:]] = table.loc[first, column]
    for column in ("mean_elapsed_ns_p", "wait_ns_p", "significant"):
        turned.loc[other, column] = table.loc[first, column]
    found = judge_difference(turned)
    assert found.outcome == "mixed"
    assert found.effect_ns == pytest.approx(0, abs=1)
    assert found.worst is not None and found.best is not None


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("wait_ns_change>0.1 and wait_ns_p<0.01", 3),
        ("wait_ns_change>2", 0),
        ("significant==1 and operation==allreduce", 3),
        ("significant==1 and operation==bcast", 0),
        ("nothing>1", 2),
    ],
)
def test_fail_on(
    tmp_path: Path, expression: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "a")
    recorded(tmp_path / "b", late_ms=2, seed=2)
    words = ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--fail-on", expression]
    assert main(words) == code
    assert ("allreduce at app.py:12 step" in capsys.readouterr().err) == (code == 3)


def test_one_trace_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "a", count=3)
    assert main(["compare", str(tmp_path / "a")]) == 2
    assert "at least two" in capsys.readouterr().err


def test_few_instances_decide_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = compare([recorded(tmp_path / "a", count=3), recorded(tmp_path / "b", 5, count=3)])
    assert table["wait_ns_p"].isna().all() and not table["significant"].any()
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "(+" in capsys.readouterr().out


def runs(folder: Path, late_ms: float, seed: int, count: int = 4) -> list[Trace]:
    """Return runs that differ among themselves, each with its own lateness."""
    drawn = np.random.default_rng(seed).normal(late_ms, 0.3, count)
    return [
        recorded(folder / str(i), float(late), seed=10 * seed + i) for i, late in enumerate(drawn)
    ]


@pytest.mark.heavy
def test_runs_that_differ_among_themselves(tmp_path: Path) -> None:
    """Two single runs nearly always differ significantly.

    Two groups of runs differ only by chance.
    """
    false = {"single": 0, "several": 0}
    for seed in range(10):
        before = runs(tmp_path / f"a{seed}", 2.0, 2 * seed)
        after = runs(tmp_path / f"b{seed}", 2.0, 2 * seed + 1)
        false["single"] += bool(compare([before[0], after[0]])["significant"].any())
        false["several"] += bool(compare(before, after)["significant"].any())
    assert false["single"] >= 7 and false["several"] <= 1


def test_large_differences_of_few_runs_are_not_called_nothing(tmp_path: Path) -> None:
    """Two runs each, with more spread than difference, are no proof of equality."""
    before, after = (
        [recorded(tmp_path / f"{late}", late, seed=int(9 * late)) for late in of]
        for of in ((1.0, 5.0), (2.0, 7.0))
    )
    for first, to, last in (
        (before, after, "More runs of each would tell whether that is a change."),
        (before, before, "There is nothing to do."),
    ):
        verdict = judge_difference(compare(first, to))
        assert verdict.outcome == "same"
        assert in_words(verdict, to, len(first))[-1] == last


@pytest.mark.heavy
def test_runs_with_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs(tmp_path / "a", 2.0, 1), runs(tmp_path / "b", 4.0, 2)
    table = compare(before, after)
    allreduce, bcast = table.to_dict("records")
    assert allreduce["significant"] and not bcast["significant"]
    waits = [np.mean([float(t.callsites["wait_ns"][0]) for t in of]) for of in (before, after)]
    assert allreduce["wait_ns"] == pytest.approx(waits[0])
    assert allreduce["wait_ns_change"] == pytest.approx(waits[1] / waits[0] - 1)
    for name in ("total_wait_ns", "total_elapsed_ns"):
        for prefix, of in (("", before), ("other_", after)):
            mean = np.mean([float(one.callsites[name][0]) for one in of])
            assert allreduce[prefix + name] == pytest.approx(mean)
    names = [[str(one.path) for one in of] for of in (before, after)]
    assert main(["compare", *names[0], "--to", *names[1]]) == 0
    out = capsys.readouterr().out
    heads = [line.split()[0] for line in out.splitlines() if str(tmp_path) in line]
    assert heads[:8] == ["A1", "A2", "A3", "A4", "B1", "B2", "B3", "B4"]
    assert "Times are means over 4 and 4 runs" in " ".join(out.split())
    gate = ["--fail-on", "wait_ns_change > 50% and wait_ns_p < 0.05"]
    assert main(["compare", *names[0], "--to", *names[1], *gate]) == 3
