"""Reports of the papers: their numbers, exhibits, claims, results as files, and the command."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from mpiprof.__main__ import main
from mpiprof.collectives.papers.harness import study
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import PAPERS, import_paper, paper_report, runs
from mpiprof.collectives.papers.reports.claim_rules import ClaimRule, judge_cases
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    NOT_REPRODUCED,
    Claim,
    ClaimVerdict,
    Exhibit,
    Paper,
    PaperValue,
    PaperValues,
    Results,
    judge_share,
    read_paper_values,
)
from mpiprof.collectives.papers.reports.paper_file import read_file
from mpiprof.collectives.papers.reports.paper_report import make_claims_table
from mpiprof.collectives.papers.reports.runs import (
    Computation,
    Measurement,
    RunResult,
    Simulation,
    find_notes,
    find_reason,
    list_code,
    load_result,
    make_key,
    obtain_result,
    parse_number,
    result_path,
)
from mpiprof.errors import MpiprofError, UsageError

# An exhibit of each paper that is drawn in less than a second.
DRAWN = {"kang": "Figure 1", "traff": "Figure 1", "rabenseifner": "Figure 2", "faraj": "Table 11"}


# ---- entries and numbers


@pytest.mark.parametrize("name", PAPERS)
def test_every_number_has_a_source_and_an_exhibit(name: str) -> None:
    values = read_paper_values(name).values
    numbers = {exhibit.number for exhibit in import_paper(name).exhibits}
    assert values and {value.exhibit for value in values} <= numbers
    for value in values:
        assert value.source.split()[0] in ("Abstract", "Section", "Table", "Figure"), value
        assert value.line > 0, value
    identities = [(v.exhibit, v.row, v.column) for v in values]
    assert len(identities) == len(set(identities))


@pytest.mark.parametrize("name", PAPERS)
def test_every_exhibit_is_obtained(name: str) -> None:
    paper = import_paper(name)
    numbers = [exhibit.number for exhibit in paper.exhibits]
    assert paper.name == name and len(numbers) == len(set(numbers))
    for exhibit in paper.exhibits:
        assert set(exhibit.all_runs) <= set(paper.runs) and exhibit.section and exhibit.shows
        assert exhibit.runs, exhibit.number
    used = {run for exhibit in paper.exhibits for run in exhibit.all_runs}
    assert used == set(paper.runs)


@pytest.mark.parametrize("name", PAPERS)
def test_every_check_of_a_paper_judges_a_claim(name: str) -> None:
    import_paper(name)
    table = read_file(name)
    modules = [m for m in sys.modules if m.startswith(f"mpiprof.collectives.papers.reports.{name}")]
    defined = {
        function
        for module in modules
        for function in vars(sys.modules[module])
        if function.startswith(("check_", "state_"))
    }
    entries = [claim for exhibit in table["exhibits"] for claim in exhibit.get("claims", ())]
    assert defined == {claim["check"][0] for claim in entries if "check" in claim}
    assert set(table["rules"]) == {claim["rule"][0] for claim in entries if "rule" in claim}


def test_values_by_row_and_column() -> None:
    values = PaperValues(
        (
            PaperValue("Table 1", "4 B", "time", 8.0, "us", "Table 1"),
            PaperValue("Table 1", "4 B", "bandwidth", 0.5, "MB/s", "Table 1"),
            PaperValue("Table 2", "4 B", "time", 9.0, "us", "Table 2"),
        )
    )
    assert values.column("Table 1", "time") == {"4 B": 8.0}
    assert values.find("Table 2", "4 B", "time") == 9.0
    assert len(values.of_exhibit("Table 1")) == 2


def test_numbers_of_a_study_s_table() -> None:
    assert [parse_number(t) for t in ("12", "0.5", "nan1", "")] == [12, 0.5, "nan1", ""]


# ---- verdicts


def test_a_share_is_a_verdict() -> None:
    states = [judge_share(right, 3, "cases").state for right in (3, 1, 0)]
    assert states == [HOLDS, IN_PART, FAILS]


def test_values_within_an_error() -> None:
    values = PaperValues(
        tuple(PaperValue("Table 1", row, "time", 1.0, "us", "Table 1") for row in ("a", "b"))
    )
    rule = ClaimRule(
        "within 5 %: {each}",
        "abs(time / paper - 1) <= 0.05",
        paper={"paper": ["Table 1", "{row}", "time"]},
        each="{row}: {time} ({paper})",
    )
    rows: list[Row] = [{"row": "a", "time": 1.04}, {"row": "b", "time": 2.0}]
    verdict = judge_cases(Results({}, values), rule, lambda _: rows)
    assert verdict.state == IN_PART and verdict.reason.startswith("1 of 2")
    assert "b: 2 (1)" in verdict.reason


# ---- results and reports


def make_paper(rows: list[Row], fault: str = "") -> Paper:
    def compute(_: bool) -> list[Row]:
        if fault:
            raise MpiprofError(fault)
        return rows

    def check(results: Results) -> ClaimVerdict:
        return judge_share(results.rows["run"][0]["right"], 2, "cases")

    claims = (Claim("It is so.", check),)
    exhibit = Exhibit("Table 1", "Section 1", "Numbers.", ("run",), claims=claims)
    return Paper(
        "kang",
        "Somebody 2000",
        "https://doi.org/10.1/1",
        {"run": Computation(compute, "by hand")},
        [exhibit],
    )


def compose(paper: Paper, folder: Path) -> paper_report.PaperReport:
    results = paper_report.obtain_results(paper, paper.exhibits, folder, quick=True)
    return paper_report.compose_report(paper, paper.exhibits, results, quick=True)


def test_claims_are_counted_by_state(tmp_path: Path) -> None:
    report = compose(make_paper([{"right": 1}]), tmp_path)
    assert {state: n for state, n in report.counts.items() if n} == {IN_PART: 1}
    assert report.summary == f"1 of 1 exhibits; 1 claims ({IN_PART}: 1)"


def test_runs_of_two_papers_with_equal_names_have_their_own_results(tmp_path: Path) -> None:
    first = make_paper([{"right": 1}])
    second = replace(make_paper([{"right": 2}]), name="traff")
    assert [compose(paper, tmp_path).counts[HOLDS] for paper in (first, second)] == [0, 1]
    assert [compose(paper, tmp_path).counts[HOLDS] for paper in (first, second)] == [0, 1]


def test_claims_as_a_table_of_the_documentation(tmp_path: Path) -> None:
    lines = make_claims_table(compose(make_paper([{"right": 1}]), tmp_path)).splitlines()
    assert lines[0] == "## Somebody 2000" and lines[2].startswith("Quick run: 1 of 1 exhibits")
    cells = [cell.strip() for cell in lines[-1].strip("|").split("|")]
    command = '`bench paper kang --only "Table 1"`'
    assert cells == ["Table 1", "1", "It is so.", command, IN_PART, "1 of 2 cases"]


def test_a_failed_run_is_the_reason_and_is_repeated(tmp_path: Path) -> None:
    report = compose(make_paper([], "no ranks"), tmp_path)
    assert report.sections[0].verdicts == [ClaimVerdict(NOT_REPRODUCED, "no ranks")]
    assert report.summary.startswith("0 of 1 exhibits")
    assert compose(make_paper([{"right": 2}]), tmp_path).counts[HOLDS] == 1


def test_an_optional_run_may_fail(tmp_path: Path) -> None:
    """Its method states the reason, and the exhibit is drawn without it."""
    paper = make_paper([{"right": 2}])
    measured = Measurement(("arrival", "-n", "4"), 3600)
    (exhibit,) = paper.exhibits
    exhibits = [replace(exhibit, optional_runs=("ranks",))]
    paper = replace(paper, runs={**paper.runs, "ranks": measured}, exhibits=exhibits)
    report = compose(paper, tmp_path)
    assert report.counts[HOLDS] == 1
    assert report.sections[0].methods[1] == (
        "ranks: measured by `bench arrival -n 4`; "
        "not obtained: a measurement that --quick leaves out."
    )


def test_further_tables_of_a_run_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study writes them as CSV, and a report reads them by the names of run and table."""

    def measure(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        output = Path(command[command.index("-o") + 1])
        tables = {"instances": [{"instance": 1, "ω/T": 2.5}]}
        study.write(study.Report(["n"], [{"n": 3}], tables=tables), "A study", output)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("mpiprof.collectives.papers.reports.runs.subprocess.run", measure)
    run = Measurement(("arrival", "-n", "2"), 1)
    path = result_path(tmp_path, "arrival", quick=False)
    result = obtain_result(run, False, path, make_key(run, False))
    assert result.rows == [{"n": 3}]
    assert result.tables == {"instances": [{"instance": 1, "ω/T": 2.5}]}
    loaded = load_result(path, make_key(run, False))
    assert loaded is not None and loaded.tables == result.tables


def test_an_interrupted_report_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paper = make_paper([{"right": 2}])
    compose(paper, tmp_path)
    monkeypatch.setattr(Computation, "obtain", lambda *_: pytest.fail("it ran again"))
    assert compose(paper, tmp_path).counts[HOLDS] == 1
    assert "1 of them done before" in capsys.readouterr().out


def test_a_result_of_other_options_is_not_reused(tmp_path: Path) -> None:
    run = Computation(lambda quick: [{"right": int(quick)}], "by hand")
    path = result_path(tmp_path, "64 processes", quick=True)
    obtain_result(run, True, path, make_key(run, True))
    assert path.name == "64-processes-quick.json"
    found = load_result(path, make_key(run, True))
    assert found is not None and found.rows == [{"right": 1}]
    assert load_result(path, make_key(run, False)) is None
    path.write_text("{")
    assert load_result(path, make_key(run, True)) is None


def test_results_depend_on_studies_simulator_and_schedules() -> None:
    names = {file.name for file in list_code()}
    assert {"libmpiprof-schedule.so", "study.py", "simulate.py", "allgatherv.py"} <= names


def test_a_long_measurement_is_left_out_of_a_quick_run() -> None:
    with pytest.raises(MpiprofError, match="--quick leaves out"):
        Measurement(("arrival", "-n", "4"), 3600).obtain(quick=True)


def test_a_quick_measurement_that_fails_has_an_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(words: tuple[str, ...]) -> runs.Obtained:
        if "--cluster" in words:
            raise MpiprofError("this requires root")
        return runs.Obtained([{"right": 1}])

    monkeypatch.setattr(runs, "_measure", measure)
    quick = ("apps", "--cluster", "8x100mbit")
    obtained = Measurement(("apps",), 1, quick, 1, ("apps", "--quick")).obtain(quick=True)
    assert obtained.rows == [{"right": 1}]
    assert obtained.notes == ["this requires root: measured by `bench apps --quick`"]
    with pytest.raises(MpiprofError, match="requires root"):
        Measurement(("apps",), 1, quick, 1).obtain(quick=True)


def test_notes_of_a_measurement_are_in_the_report() -> None:
    """A study prints its conditions before the table, and the report repeats them."""
    output = "Arrivals: 2 ranks.\nThis will take about 3 s.\nA timer replaces it.\n\na  b\n1  2\n"
    assert find_notes(output) == ["Arrivals: 2 ranks.", "A timer replaces it."]
    result = RunResult([{"right": 2}], 1.0, notes=("A timer replaces it.",))
    paper = make_paper([])
    report = paper_report.compose_report(paper, paper.exhibits, {"run": result}, quick=True)
    assert report.sections[0].methods == ["run: by hand; took 1 s. A timer replaces it."]


def test_a_simulation_states_its_patterns() -> None:
    run = Simulation("impact", 4, Options(only=("bcast",), sizes=(1,), laps=2))
    obtained = run.obtain(quick=True)
    assert obtained.notes == ["2 patterns, simulated; the paper: 32 patterns of 100 calls"]


def test_the_reason_of_a_failure() -> None:
    """Launchers print further lines after a message, and bytes without meaning."""
    assert find_reason("mpiprof: no ranks\nprterun: exit 1\n\0\n") == "mpiprof: no ranks"
    assert find_reason("prterun: exit 1\n----\n\0\n") == "prterun: exit 1"
    assert find_reason("\0\n") == ""
    refusal = "prterun has detected an attempt to run as root.\n\nRunning as root is discouraged.\n"
    assert find_reason(refusal) == "prterun has detected an attempt to run as root."
    crash = "Traceback:\nValueError: x\n-----\nprterun detected that a process exited.\n  code: 1\n"
    assert find_reason(crash) == "ValueError: x"
    hydra = "ValueError: x\n\n=====\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
    assert find_reason(hydra) == "ValueError: x"


# ---- the command


@pytest.mark.heavy
@pytest.mark.parametrize("name", PAPERS)
def test_one_figure_of_each_paper(name: str, tmp_path: Path) -> None:
    words = ["bench", "paper", name, "--quick", "--only", DRAWN[name], "-o", str(tmp_path)]
    assert main(words) == 0
    page = (tmp_path / f"{name}.html").read_text()
    assert page.startswith("<!doctype html>") and "src=" not in page
    assert DRAWN[name] in page and page.count("<h2") == 1
    begin, end = page.index("<svg"), page.rindex("</svg>") + len("</svg>")
    ElementTree.fromstring(f"<div>{page[begin:end]}</div>".replace("&nbsp;", ""))


@pytest.mark.everything
@pytest.mark.parametrize("name", PAPERS)
def test_quick_report_of_each_paper(name: str, tmp_path: Path) -> None:
    """Every exhibit is in the report; measurements of Faraj et al. start 2 ranks and 8 nodes."""
    assert main(["bench", "paper", name, "--quick", "-o", str(tmp_path)]) == 0
    page = (tmp_path / f"{name}.html").read_text()
    assert page.count("<h2") == len(import_paper(name).exhibits)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["paper"], "requires a paper: "),
        (["paper", "kang", "--only", "Figure 99"], "'Figure 99': kang has Figure 1, "),
        (["paper", "kang", "--only", ""], '--only is empty: write exhibits, such as --only "Table'),
        (["paper", "kang", "--only", " , "], "--only is empty"),
        (["paper", "kang", "--sizes", "4K"], "--sizes: bench paper has only the options --only, "),
        (["paper", "kang", "-n", "2"], "-n: bench paper has only the options --only, -o and "),
        (["paper", "kang", "--cluster", "4x1mbit"], "--cluster: bench paper has only"),
        (["paper", "kang", "--repetitions", "3"], "--repetitions: bench paper has only"),
        (["cases", "kang"], "require `bench paper kang`"),
    ],
)
def test_wrong_use_of_reports_is_one_line(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["-o", str(tmp_path)] if words[0] == "paper" and len(words) > 1 else []
    assert main(["bench", *words, *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_file_in_the_place_of_the_folder_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "taken"
    file.touch()
    assert main(["bench", "paper", "kang", "--only", "Links", "-o", str(file)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"mpiprof: -o {file} is a file: pass a folder for the report's files"


def test_a_folder_that_is_not_writable_is_named_before_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert main(["bench", "paper", "kang", "--only", "Links", "-o", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mpiprof: -o {tmp_path} is not writable: ")


def test_exhibits_are_selected_in_any_case_and_once() -> None:
    chosen = paper_report.select_exhibits(import_paper("kang"), ["figure 6", "LINKS", "Figure 6"])
    assert [exhibit.number for exhibit in chosen] == ["Figure 6", "Links"]


def test_an_unknown_exhibit_is_named() -> None:
    with pytest.raises(UsageError, match=r"kang has Figure 1, "):
        paper_report.select_exhibits(import_paper("kang"), ["Table 6"])
