"""Decisions of `--switch auto` for given times, without MPI (support/auto_decisions.py)."""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import ROOT
from support.auto_decisions import Outcome, compile_decisions, outcome

SEEDS = range(1, 51)
MOST = 0.96  # minimum share of seeds that hold, as 2 in 100 instances are disturbed


@pytest.fixture(scope="module")
def decide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the decisions into a separate program."""
    return compile_decisions(tmp_path_factory.mktemp("decide"))


def outcomes(decide: Path, times: str, seeds: range = SEEDS, **options: int) -> list[Outcome]:
    """Run the same case with different noise for each seed."""
    return [outcome(decide, times, seed=seed, **options) for seed in seeds]


def share(found: list[Outcome], holds: Callable[[Outcome], bool]) -> float:
    """Return the share of outcomes for which a condition holds."""
    return sum(map(holds, found)) / len(found)


@pytest.mark.heavy
def test_the_fastest_is_found(decide: Path) -> None:
    outcome_list = outcomes(decide, "100 50 40 90 120")
    assert share(outcome_list, lambda o: o.last == 2 and o.time < 0.5) >= MOST
    assert share(outcome_list, lambda o: o.choices[0][1] <= 40) >= 0.75


def test_block_sizes_are_climbed_to_the_best_one(decide: Path) -> None:
    """8 KB is the best listed size of 2, 4 and 8 KB. Unlisted 16 KB is better, 32 KB is not."""
    sizes = "90:90:90:2 70:70:70:4 60:60:60:8 50:50:-1:16 58:58:-1:32 20:20:-1:64"
    outcome_list = outcomes(decide, f"100 {sizes}", instances=600)
    assert share(outcome_list, lambda o: o.last == 4) >= MOST
    assert max(o.probes for o in outcome_list) <= 40
    assert share(outcome_list, lambda o: len(o.phases) == 1) >= MOST


def test_block_sizes_are_climbed_beside_a_better_algorithm(decide: Path) -> None:
    """4 KB is 10 % slower than candidate 1, and 16 KB is 15 % faster."""
    outcome_list = outcomes(decide, "100 60 66:66:66:4 57:57:-1:8 51:51:-1:16 56:56:-1:32")
    assert share(outcome_list, lambda o: o.last == 4) >= MOST


def test_all_algorithms_with_equal_predictions_are_tried(decide: Path) -> None:
    """Eight algorithms in 150 instances, as of an all-to-all with imbalanced arrivals."""
    others = " ".join(f"{t}:{t}:100" for t in (105, 104, 103, 102, 98, 97))
    outcome_list = outcomes(decide, f"100 95:95:90 {others}", instances=150)
    assert share(outcome_list, lambda o: all(o.tried)) >= 0.9


def test_where_nothing_is_faster_little_is_lost(decide: Path) -> None:
    times = "100 102 104 106 108 110 115 120"
    outcome_list = outcomes(decide, times)
    assert share(outcome_list, lambda o: o.last == 0) >= MOST
    assert max(o.probes for o in outcome_list) <= 40
    assert outcome(decide, times, seed=1, noise=0).time <= 1.01


def test_wrong_predictions_cost_no_more_than_the_budget(decide: Path) -> None:
    found = outcome(decide, "100 300:300:90 250:250:90 400:400:90 500:500:90", noise=0, seed=1)
    assert found.last == 0
    assert found.time <= 1.03


def test_what_all_predictions_have_too_low_or_too_high_is_corrected(decide: Path) -> None:
    """All predictions are wrong by the same factor, and the best candidate is predicted third."""
    for factor in (0.4, 1.8):
        times = [(70, 60), (75, 62), (50, 65), (95, 80)]
        words = " ".join(f"{t}:{t}:{factor * p:.0f}" for t, p in times)
        assert share(outcomes(decide, f"100 {words}"), lambda o: o.last == 3) >= MOST


def test_equal_candidates_replace_the_library_in_one_run_of_twenty(decide: Path) -> None:
    """With 95 % confidence, noise alone does not replace the library's own choice.

    A choice must also be faster by 1 %, so fewer than 5 % are wrong; 100 runs with 10 % noise.
    """
    outcome_list = outcomes(decide, "100 100 100 100", range(100), noise=10)
    assert share(outcome_list, lambda o: o.last > 0) <= 0.12


def test_a_change_is_noticed_and_the_new_best_is_found(decide: Path) -> None:
    outcome_list = outcomes(decide, "100 50:200 120:60 90 95", change=150)
    assert share(outcome_list, lambda o: o.choices[0][0] == 1 and o.last == 2) >= MOST
    assert share(outcome_list, lambda o: len(o.phases) == 2) >= MOST
    for one in outcome_list:
        at, why = one.phases[1]
        assert why in ("score", "imbalance")
        # Two windows of four after the change, plus the window in transit.
        assert 150 < at <= 150 + 4 * 4
        assert one.later <= 300 / 5


@pytest.mark.parametrize("change", [60, 70, 80, 90, 100])
def test_a_change_around_a_phase_s_end_is_noticed_too(change: int, decide: Path) -> None:
    """Probing may continue for 100 instances, most of them without a probe."""
    times = "700:800 701:600:800 795:803:800 817:820:805 1140:802:800 2500:820:800 2400:800:750"

    def is_noticed(one: Outcome) -> bool:
        noticed = [at for at, _ in one.phases if change < at <= change + 5 * 4]
        return bool(noticed) or one.last == 1  # found by the current phase

    assert share(outcomes(decide, times, change=change, noise=1), is_noticed) >= MOST


def test_a_phase_ends_if_the_library_is_too_slow_to_run_again(decide: Path) -> None:
    outcome_list = outcomes(decide, "1000:4000 50:100 120:60 90", change=150)
    assert share(outcome_list, lambda o: o.choices[0][0] == 1 and o.last == 2) >= MOST
    assert share(outcome_list, lambda o: o.choices[-1][1] <= 230) >= MOST


def test_slower_candidates_extend_no_phase(decide: Path) -> None:
    """Measured times of 16 emulated nodes for an all-to-all, and their predictions."""
    times = "700 693 991:991:769 1610:1610:769 816:816:733 815:815:733 792:792:819 795:795:819"
    outcome_list = outcomes(decide, times, noise=1)
    assert share(outcome_list, lambda o: o.choices[-1][1] <= 130) >= 0.85
    # Disturbed instances alone make the two compared sums differ by 2 %.
    assert statistics.mean(o.time for o in outcome_list) <= 1.015


def test_after_a_change_block_sizes_are_climbed_as_well(decide: Path) -> None:
    """8 KB was best; from instance 150 on it is 32 KB, which was never measured before."""
    sizes = "70:90:70:4 50:70:50:8 60:60:60:16 80:40:-1:32 90:95:-1:64"
    outcome_list = outcomes(decide, f"100:130 {sizes}", instances=400, change=150)
    assert share(outcome_list, lambda o: o.choices[0][0] == 2 and o.last == 4) >= MOST


def test_a_restless_program_is_not_probed_for_ever(decide: Path) -> None:
    """After the first phase, at most a fifth of the instances are probes in any case."""
    for one in outcomes(decide, "100 80 90 95", instances=3000, noise=60):
        assert one.probes - one.later <= 40
        assert one.later <= 600


ALTERNATES = "100:200 80:260 150:120 95:190"


@pytest.mark.parametrize("turns", [8, 12, 20, 30, 50, 80])
def test_a_program_that_soon_changes_again_is_left_alone(turns: int, decide: Path) -> None:
    """The sooner a phase follows the last, the longer the next is delayed, with native runs.

    Candidate 1 alone would take 1.13 times as long as the library's own choice.
    """
    outcome_list = outcomes(decide, ALTERNATES, instances=6000, change=-turns)
    assert share(outcome_list, lambda o: o.time <= 1.03) >= MOST
    assert max(len(o.phases) for o in outcome_list) <= 10
    assert max(o.probes for o in outcome_list) <= 150


@pytest.mark.parametrize("turns", [150, 300])
def test_phases_that_last_are_worth_probing_each_time(turns: int, decide: Path) -> None:
    """The best possible ratio is 0.67: 80 and 120 instead of 100 and 200."""
    outcome_list = outcomes(decide, ALTERNATES, instances=6000, change=-turns)
    assert share(outcome_list, lambda o: len(o.phases) == 6000 // turns and o.time <= 0.8) >= MOST


@pytest.mark.parametrize("change", [36, 40, 44, 50, 60])
def test_a_choice_that_a_change_made_wrong_does_not_stay(change: int, decide: Path) -> None:
    """The choice rests on data from before the change, or the probes are limited."""

    def is_corrected(one: Outcome) -> bool:
        right = one.last == 1 or (one.last == 0 and one.later >= 10)
        return right and one.choices[-1][1] <= change + 70

    outcome_list = outcomes(decide, "100 110:50 60:140 90", instances=400, change=change)
    assert share(outcome_list, is_corrected) >= 0.94


def test_a_key_without_candidates_is_left_alone(decide: Path) -> None:
    found = outcome(decide, "100 500:500:400 300", seed=1)
    assert found.probes == 0
    assert found.last == 0


def test_the_last_rank_is_passed_to_late_last_algorithms(decide: Path) -> None:
    """Candidate 2 is for rank 0; 3 is added for late rank 2, and later 4 for rank 5."""
    outcome_list = outcomes(decide, "100 90 50:50:50:-1", instances=600, change=300)
    before = [[one for one, at in o.choices if at < 300][-1] for o in outcome_list]
    assert before.count(3) >= MOST * len(outcome_list)
    assert share(outcome_list, lambda o: o.last == 4) >= MOST


def test_a_hardly_late_rank_does_not_join_last(decide: Path) -> None:
    assert share(outcomes(decide, "100 50 20:20:20:-2"), lambda o: o.last == 1) >= MOST


def test_who_is_waited_for_in_the_scores_comes_last_as_well(decide: Path) -> None:
    """A reduce of 16 emulated nodes: each score of the library includes 35 ms of waiting."""
    outcome_list = outcomes(decide, "38 45:45:16 50:50:16 160:160:22 11:11:3:-3")
    assert share(outcome_list, lambda o: o.last == 5) >= MOST


def test_a_library_algorithm_is_tried_after_the_similar_mpiprof_algorithm(decide: Path) -> None:
    """Candidate 5 resembles 1, mpiprof's best, and is better; 6 resembles 4, which is slow."""
    outcome_list = outcomes(decide, "100 60 80 90 300:300:95 50:50:0:-11 40:40:0:-14")
    assert share(outcome_list, lambda o: o.last == 5) >= MOST
    assert share(outcome_list, lambda o: o.own == 1) >= MOST


def test_only_four_library_algorithms_are_tried(decide: Path) -> None:
    outcome_list = outcomes(
        decide, "100 60 62 64 " + " ".join(f"61:61:0:-1{i}" for i in (1, 1, 2, 2, 3, 3))
    )
    assert all(o.own <= 4 for o in outcome_list)
    assert share(outcome_list, lambda o: o.own >= 3) >= MOST


def test_no_phase_waits_for_a_communicator_that_costs_too_much(decide: Path) -> None:
    """A better candidate that costs 20 calls is skipped; one that costs half a call is chosen."""
    dear = outcomes(decide, "100 60 80 30:30:2000:-11")
    assert not any(o.own for o in dear)
    assert share(dear, lambda o: o.last == 1 and o.choices[0][1] <= 60) >= MOST
    cheap = outcomes(decide, "100 60 80 30:30:50:-11")
    assert share(cheap, lambda o: o.own == 1 and o.last == 3) >= MOST


def case(generator: random.Random) -> tuple[str, list[float]]:
    """Return random candidates as words and times; the library's own choice takes 100.

    The model's error is a factor that all candidates share, times a factor of each candidate.
    """
    low, high = generator.choice([(0.3, 2.5), (0.85, 1.3), (1.0, 2.5)])
    shared = generator.lognormvariate(0, 0.4)
    times, words = [100.0], ["100"]
    for _ in range(generator.randint(2, 9)):
        takes = 100 * low * (high / low) ** generator.random()
        times.append(takes)
        predicted = takes * shared * generator.lognormvariate(0, 0.3)
        words.append(f"{takes:.2f}:{takes:.2f}:{predicted:.2f}")
    if generator.random() < 0.4:  # plus one algorithm with five block sizes, three of them listed
        best, best_size = generator.uniform(35, 110), generator.randint(0, 4)
        for size in (1, 2, 3, 0, 4):
            takes = best * (1 + 0.12 * abs(size - best_size))
            predicted = best * shared * generator.lognormvariate(0, 0.1)
            times.append(takes)
            listed = f"{predicted:.2f}" if size in (1, 2, 3) else "-1"
            words.append(f"{takes:.2f}:{takes:.2f}:{listed}:{2 << size}")
    return " ".join(words), times


@dataclass
class Summary:
    """Results by case: choice relative to the best, probes, time relative to the library's."""

    behind: list[float] = field(default_factory=list)
    probes: list[int] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    def add(self, found: Outcome, times: list[float]) -> None:
        """Add a case with the time of each candidate in us."""
        self.behind.append(times[found.last] / min(times))
        self.probes.append(found.probes)
        self.whole.append(found.time)

    @property
    def hits(self) -> float:
        """Return the share of cases in which the choice is within 1 % of the best."""
        return sum(ratio <= 1.01 for ratio in self.behind) / len(self.behind)

    def row(self, title: str) -> str:
        """Return the row of docs/results/auto.md."""
        tenth = statistics.quantiles(self.probes, n=10)[-1]
        cells = [
            f"{len(self.behind)} {title}",
            f"{100 * self.hits:.0f} %",
            f"{statistics.mean(self.behind):.3f}",
            f"{statistics.median(self.probes):.0f}, {tenth:.0f}",
            f"{statistics.mean(self.whole):.3f}",
        ]
        return f"| {' | '.join(cells)} |"


def check_documented(row: str) -> None:
    """Print a row and compare it with the documentation; compilers may round times differently."""
    print(f"\n{row}")
    title = row.rpartition(" | ")[0].split(" | ")[0]
    lines = (ROOT / "docs" / "results" / "auto.md").read_text().splitlines()
    (documented,) = (line for line in lines if line.startswith(f"{title} |"))
    for text, known in zip(row.split("|")[2:6], documented.split("|")[2:6], strict=True):
        numbers = [[float(n) for n in re.findall(r"[\d.]+", t)] for t in (text, known)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=0.01), (row, documented)


@pytest.mark.heavy
def test_with_library_algorithms_the_best_is_found_in_ten_probes(decide: Path) -> None:
    """400 random cases: some candidates have a library twin that differs by a tenth."""
    all_ = Summary()
    for seed in range(400):
        generator = random.Random(seed)
        words, times = case(generator)
        listed = [one for one in words.split() if ":-1:" not in one]
        plain = [i for i, one in enumerate(listed) if one.count(":") == 2]
        known = times[: len(listed)]
        for like in generator.sample(plain, min(len(plain), 4)):
            known.append(times[like] * generator.lognormvariate(0, 0.1))
            listed.append(f"{known[-1]:.2f}:{known[-1]:.2f}:0:-{10 + like}")
        all_.add(outcome(decide, " ".join(listed), noise=3, seed=seed % 50 + 1), known)
    check_documented(all_.row("cases with the library's own"))
    assert statistics.median(all_.probes) <= 10
    assert all_.hits >= 0.88 and statistics.mean(all_.behind) <= 1.015


@pytest.mark.heavy
def test_the_best_is_found_in_ten_probes(decide: Path) -> None:
    """600 random cases of 300 instances each: the choice found, its cost and its loss."""
    by_noise = {1: Summary(), 3: Summary(), 10: Summary()}
    all_ = Summary()
    for seed in range(600):
        generator = random.Random(seed)
        words, times = case(generator)
        noise = generator.choice(list(by_noise))
        found = outcome(decide, words, noise=noise, seed=seed % 50 + 1)
        by_noise[noise].add(found, times)
        all_.add(found, times)
    check_documented(all_.row("cases with ours alone"))
    assert statistics.median(all_.probes) <= 10
    for noise, least, mean in ((1, 0.95, 1.01), (3, 0.92, 1.015), (10, 0.85, 1.02)):
        assert by_noise[noise].hits >= least, noise
        assert statistics.mean(by_noise[noise].behind) <= mean, noise
    assert statistics.mean(all_.whole) <= 0.78
    assert sum(time <= 1.03 for time in all_.whole) >= 0.95 * len(all_.whole)
