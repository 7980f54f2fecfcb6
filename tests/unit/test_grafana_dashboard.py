"""The Grafana dashboard of docs/site, against the metrics that `run --summary-to` writes."""

from __future__ import annotations

import json
import re
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families
from support import ROOT
from support.synthetic import Synthetic

import mpiprof
from mpiprof.hang.summary_writer import format_metrics, summarise_job

BOARD: dict[str, Any] = json.loads((ROOT / "docs" / "site" / "grafana.json").read_text())
PANELS: list[dict[str, Any]] = BOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
PAGE = (ROOT / "docs" / "howto" / "monitoring.md").read_text()
ALERTS = re.findall(r"^ +expr: (.+)$", PAGE, re.MULTILINE)
COLUMNS = 24  # of Grafana's grid

Labels = dict[str, set[str]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    """Return the labels of each metric of a job, as Prometheus's parser reads them."""
    synthetic = Synthetic(2)
    synthetic.add_collective("allreduce", [[1_000, 5_000]], [[6_000, 6_000]])
    trace = mpiprof.open(synthetic.write(tmp_path_factory.mktemp("metrics") / "t"))
    summary = summarise_job(trace, trace.callsites, "running")
    text = format_metrics(summary, trace.callsites, "4711.0")
    found: Labels = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """Return the selectors of metrics in a query, which must be correct PromQL."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(query), visit)
    return found


def test_the_dashboard_shows_exactly_the_metrics_that_exist(written: Labels) -> None:
    assert {found.name for query in QUERIES for found in selectors(query)} == set(written)


@pytest.mark.parametrize("query", [*QUERIES, *ALERTS])
def test_each_query_uses_labels_that_exist(query: str, written: Labels) -> None:
    found = selectors(query)
    assert found
    for selector in found:
        used = {matcher.name for matcher in selector.matchers.matchers}
        assert used <= written[str(selector.name)]
    grouped = {
        label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")
    }
    assert grouped <= set.union(*(written[str(selector.name)] for selector in found))


def test_the_page_shows_an_alert() -> None:
    assert len(ALERTS) >= 1


def test_counters_alone_have_a_rate() -> None:
    """`rate` of a gauge and `deriv` of a counter are wrong."""
    rates = re.findall(r"rate\((\w+)", " ".join(QUERIES))
    derivatives = re.findall(r"deriv\((\w+)", " ".join(QUERIES))
    assert rates and all(name.endswith("_total") for name in rates)
    assert derivatives and not any(name.endswith("_total") for name in derivatives)


def test_grafanas_model_reads_every_field() -> None:
    """Fields that the model does not have are missing after the round trip."""
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(BOARD)))
    assert lost_fields(BOARD, again, "") == []


def lost_fields(given: Any, again: Any, path: str) -> list[str]:
    """Return the paths of values that are missing or different in `again`."""
    if isinstance(given, dict) and isinstance(again, dict):
        pairs = [(f"{path}/{name}", given[name], again.get(name)) for name in given]
    elif isinstance(given, list) and isinstance(again, list) and len(given) == len(again):
        pairs = [(f"{path}/{i}", *both) for i, both in enumerate(zip(given, again, strict=True))]
    else:
        return [] if given == again else [path]
    return [lost for name, one, other in pairs for lost in lost_fields(one, other, name)]


def test_panels_have_a_source_a_number_and_a_free_place() -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    taken: dict[tuple[int, int], int] = {}
    for panel in PANELS:
        assert panel["datasource"] == source and panel["title"] and panel["description"]
        assert all(target["datasource"] == source for target in panel["targets"])
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= COLUMNS
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["id"]) == panel["id"]
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_variables_are_defined_and_select_metrics_that_exist(written: Labels) -> None:
    variables = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS)))
    assert used == set(variables)
    for name in used - {"datasource"}:
        values = re.fullmatch(r"label_values\((.+), (\w+)\)", variables[name]["query"])
        assert values and values[2] == name
        (selector,) = selectors(values[1])
        assert name in written[str(selector.name)]


def test_columns_of_tables_are_those_of_their_queries() -> None:
    for panel in PANELS:
        if panel["type"] != "table":
            continue
        columns = {f"Value #{target['refId']}" for target in panel["targets"]}
        _, organised = panel["transformations"]
        renamed = organised["options"]["renameByName"]
        named = set(renamed) | set(organised["options"]["excludeByName"]) - {"Time"}
        assert named == columns
        for override in panel["fieldConfig"]["overrides"]:
            assert override["matcher"]["options"] in renamed.values()
