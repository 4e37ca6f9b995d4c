"""The dashboards' JSON: made from its source, well formed, whole, and in terms of the catalogue."""

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import promql_parser as promql
import pytest
from click.testing import CliRunner
from dashboards.generate import DASHBOARDS, dashboard_files
from msgspec import structs

from assets.boards import (
    DOCUMENTS,
    Asked,
    Json,
    asked,
    panels,
    substituted,
    variables_of,
)
from assets.promql import (
    TARGET,
    catalogue_labels,
    labels_of,
    nodes,
    problems,
    selectors,
)
from docs.generator import generator
from penstock.account.fates import LOSSES
from penstock.assets.alerts import groups
from penstock.assets.rule_files import rule_files
from penstock.assets.thresholds import THRESHOLDS
from penstock.assets.values import AlertValues
from penstock.cli import main
from rig.each import of_each

FOLDER = Path(__file__).parents[2] / "dashboards"
KNOWN = catalogue_labels() | {
    "process_cpu_seconds_total": TARGET,
    "process_resident_memory_bytes": TARGET,
}
KINDS = {"timeseries", "stat", "table", "state-timeline"}
"""All of Grafana 10."""
UNITS = {"locale", "short", "none", "percentunit", "bytes", "s", "mps", "cps"}
NO_DECIMALS = {"state-timeline", "table"}
SHARED = {"datasource", "cluster", "namespace", "job", "instance"}
QUERIES = sorted(
    {query.expr: query for query in asked()}.values(), key=lambda query: query.name
)
BY_PLACE = {f"{query.name}: {query.expr}": query for query in QUERIES}

EXEMPT = {
    "decimals": {
        "Up": "a word",
        "History": "a word",
        "Version": "a word",
        "Version and role": "a word",
        "Configuration": "a word",
        "State file": "a word",
    }
}
"""Check → panel → why it does not apply."""


def test_what_is_committed_is_what_is_made() -> None:
    for name, text in dashboard_files().items():
        assert (FOLDER / name).read_text() == text, "run: python -m dashboards.generate"


def test_nothing_else_is_committed() -> None:
    assert {file.name for file in FOLDER.glob("*.json")} == set(dashboard_files())


def test_the_command_writes_what_is_committed(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["dashboards", "write", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert {
        file.name: file.read_text() for file in tmp_path.iterdir()
    } == dashboard_files()


@of_each(DOCUMENTS)
def test_identity(board: Json) -> None:
    assert re.fullmatch(r"penstock-[a-z]+", board["uid"])
    assert len(board["uid"]) <= 40
    assert board["id"] is None
    assert board["schemaVersion"] == 39
    assert board["tags"] == ["penstock"]
    assert (board["editable"], board["graphTooltip"], board["liveNow"]) == (
        False,
        1,
        False,
    )
    assert (board["refresh"], board["timezone"]) == ("30s", "browser")
    assert board["title"].startswith("Penstock / ")
    (link,) = board["links"]
    assert (link["tags"], link["keepTime"], link["includeVars"]) == (
        ["penstock"],
        True,
        True,
    )


@of_each(DOCUMENTS)
def test_variables(board: Json) -> None:
    variables = board["templating"]["list"]
    names = [variable["name"] for variable in variables[:5]]
    assert names == ["datasource", "cluster", "namespace", "job", "instance"]
    source, *listed = variables
    assert (source["type"], source["query"], source["label"]) == (
        "datasource",
        "prometheus",
        "Data Source",
    )
    before: list[str] = []
    for variable in listed:
        selector, label = re.fullmatch(
            r"label_values\((.*),(\w+)\)", variable["query"]["query"]
        ).groups()  # type: ignore[union-attr]
        assert label == variable["name"]
        assert problems(substituted(selector), KNOWN) == []
        assert label in KNOWN[selector.partition("{")[0]]
        assert variables_of(selector) == set(before), "each narrows the next"
        assert variable["refresh"] == 2
        assert variable["label"] == variable["label"].capitalize()
        assert (
            variable["multi"]
            == variable["includeAll"]
            == (variable.get("allValue") == ".*")
        )
        before.append(label)


@of_each(DOCUMENTS)
def test_panels(board: Json) -> None:
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["type"] in KINDS
        assert re.fullmatch(r"[A-Z][^.]*", panel["title"])
        assert re.fullmatch(r"(?s).{30,}[.]", panel["description"]), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
        assert [target["refId"] for target in panel["targets"]] == sorted(
            {t["refId"] for t in panel["targets"]}
        )
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {
            "${datasource}"
        }
        assert defaults["unit"] in UNITS
        if (
            panel["type"] not in NO_DECIMALS
            and panel["title"] not in EXEMPT["decimals"]
        ):
            assert "decimals" in defaults, panel["title"]
        assert ("noValue" in defaults) == (panel["type"] != "table")
        if panel["type"] == "timeseries":
            assert all(
                target["legendFormat"] != "__auto" for target in panel["targets"]
            ), panel["title"]


@of_each(DOCUMENTS)
def test_titles_are_told_apart_and_no_query_is_shown_twice(board: Json) -> None:
    for kind in ("stat", "timeseries"):
        titles = [panel["title"] for panel in panels(board) if panel["type"] == kind]
        assert len(set(titles)) == len(titles)
        queries = [
            target["expr"]
            for panel in panels(board)
            if panel["type"] == kind
            for target in panel["targets"]
        ]
        assert len(set(queries)) == len(queries)


@of_each(DOCUMENTS)
def test_layout(board: Json) -> None:
    """Within 24 columns, no two panels on one place."""
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        columns = range(place["x"], place["x"] + place["w"])
        rows = range(place["y"], place["y"] + place["h"])
        cells = set(itertools.product(columns, rows))
        assert not cells & taken, panel["title"]
        taken |= cells


@of_each(DOCUMENTS)
def test_titles_are_whole_and_rows_are_full_in_a_window_of_1440_pixels(
    board: Json,
) -> None:
    """A column of the grid is 58 pixels wide, a title leaves 59 to the frame and menu, a letter takes seven."""
    widths: Counter[int] = Counter()
    for panel in panels(board):
        assert 7 * len(panel["title"]) <= 58 * panel["gridPos"]["w"] - 59, panel[
            "title"
        ]
        widths[panel["gridPos"]["y"]] += panel["gridPos"]["w"]
    assert set(widths.values()) == {24}


@of_each(BY_PLACE)
def test_queries(query: Asked) -> None:
    assert problems(substituted(query.expr), KNOWN) == []
    named = {
        variable["name"] for variable in DOCUMENTS[query.board]["templating"]["list"]
    }
    assert variables_of(query.expr) <= named
    for selector, _ in selectors(substituted(query.expr)):
        chosen = {matcher.name for matcher in selector.matchers.matchers}
        assert SHARED - {"datasource"} <= chosen, "every selector follows the variables"
        assert (named - SHARED) & KNOWN[str(selector.name)] <= chosen
    ranges = re.findall(r"\}\[([^]]*)\]", query.expr)
    assert all(span == "$__rate_interval" or query.instant for span in ranges)


@of_each(BY_PLACE)
def test_legends_name_labels_that_are_there(query: Asked) -> None:
    have = labels_of(promql.parse(substituted(query.expr)), KNOWN) or frozenset()
    for panel in panels(DOCUMENTS[query.board]):
        for target in panel["targets"]:
            if target["expr"] == query.expr and panel["title"] == query.panel:
                assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= have
                links = [*panel["fieldConfig"]["defaults"]["links"]]
                wanted = {
                    label
                    for link in links
                    for label in re.findall(r"__field\.labels\.(\w+)", link["url"])
                }
                if (
                    panel["type"] == "timeseries"
                    and "target" not in target["legendFormat"]
                ):
                    assert wanted <= have


def test_tables_have_the_same_labels_in_all_columns() -> None:
    """Else merging them gives rows with holes; and links use only columns that are there."""
    tables = [
        panel
        for board in DOCUMENTS.values()
        for panel in panels(board)
        if panel["type"] == "table"
    ]
    assert len(tables) > 10
    for panel in tables:
        labels = {
            labels_of(promql.parse(substituted(target["expr"])), KNOWN)
            for target in panel["targets"]
        }
        assert len(labels) == 1, panel["title"]
        (have,) = labels
        assert have is not None
        overrides = panel["fieldConfig"]["overrides"]
        values = {
            override["matcher"]["options"]
            for override in overrides
            if override["matcher"]["options"] not in have
        } - {"cluster", "namespace"}
        several = len(panel["targets"]) > 1
        assert values == (
            {f"Value #{t['refId']}" for t in panel["targets"]} if several else {"Value"}
        )
        keys = [
            override for override in overrides if override["matcher"]["options"] in have
        ]
        texts = {
            one["matcher"]["options"]
            for one in keys
            if {"id": "unit", "value": "string"} in one["properties"]
        }
        assert texts == {one["matcher"]["options"] for one in keys}, (
            "an id of digits would be shown as a number"
        )
        links = re.findall(r"__data\.fields\.(\w+)", str(overrides))
        assert set(links) <= have


@of_each(DOCUMENTS)
def test_tables_are_sorted_the_worst_first_and_bounded(board: Json) -> None:
    for panel in panels(board):
        if panel["type"] == "table":
            named = [
                one
                for over in panel["fieldConfig"]["overrides"]
                for one in over["properties"]
            ]
            titles = {one["value"] for one in named if one["id"] == "displayName"}
            assert panel["options"]["sortBy"], panel["title"]
            up_first = panel["title"] != "Brokers"  # there 0, down, is the worst
            assert all(
                one["desc"] == up_first and one["displayName"] in titles
                for one in panel["options"]["sortBy"]
            )
            bound = "topk(100, " if up_first else "bottomk(100, "
            assert all(bound in target["expr"] for target in panel["targets"]), panel[
                "title"
            ]


@of_each(DOCUMENTS)
def test_lines_are_bounded(board: Json) -> None:
    """Of a line for each of what there may be thousands of the worst are drawn."""
    for panel in panels(board):
        for target in panel["targets"]:
            if (
                panel["type"] in {"timeseries", "state-timeline"}
                and "{{" in target["legendFormat"]
            ):
                assert re.match(r"(topk|bottomk)\(20, ", target["expr"]), panel["title"]


@of_each(DOCUMENTS)
def test_brokers_of_one_name_in_two_clusters_are_two(board: Json) -> None:
    for panel in panels(board):
        for target in panel["targets"]:
            for node, _ in nodes(promql.parse(substituted(target["expr"]))):
                if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
                    names = set(node.modifier.labels)
                    assert "broker" not in names or {"cluster", "namespace"} <= names, (
                        panel["title"]
                    )
            legend = target["legendFormat"]
            assert ("{{broker}}" in legend) == (
                "{{cluster}} {{namespace}} {{broker}}" in legend
            ), legend


@of_each(DOCUMENTS)
def test_no_two_lines_have_one_name_and_none_repeats_what_is_chosen(
    board: Json,
) -> None:
    chosen = {
        one["name"]
        for one in board["templating"]["list"]
        if not one["multi"] and one["type"] == "query"
    }
    for panel in panels(board):
        for target in panel["targets"]:
            if panel["type"] in {"timeseries", "state-timeline"}:
                have = (
                    labels_of(promql.parse(substituted(target["expr"])), KNOWN)
                    or frozenset()
                )
                named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                assert (
                    have & {"cluster", "namespace", "queue"}
                    if "broker" in have
                    else set()
                ) <= named | chosen
                assert not named & chosen, panel["title"]
                assert re.sub(
                    r"\{\{(cluster|namespace)\}\}", "", target["legendFormat"]
                ).strip(), panel["title"]


@pytest.mark.slow  # all boards or rules
def test_a_threshold_is_the_same_in_alerts_boards_and_runbooks() -> None:
    """Another one changes all three."""
    changed = structs.replace(THRESHOLDS, disk_of_limit_ratio=0.77)
    assert "> 0.77" in rule_files(AlertValues(thresholds=changed))["alerts.yaml"]
    page = (FOLDER.parent / "docs" / "runbooks" / "brokers.md").read_text()
    assert "`disk_of_limit_ratio` 0.77" in generator.runbook(page, changed)
    script = "import penstock.assets.thresholds as t; from msgspec import structs;"
    script += "t.THRESHOLDS = structs.replace(t.THRESHOLDS, disk_of_limit_ratio=0.77);"
    script += "from dashboards.generate import dashboard_files; print(dashboard_files()['penstock-broker.json'])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=FOLDER.parent,
    )
    assert '"value": 0.77' in done.stdout
    assert '"value": 0.77' not in dashboard_files()["penstock-broker.json"]


@of_each(DOCUMENTS)
def test_links_lead_to_dashboards_and_variables_that_are_there(board: Json) -> None:
    urls = re.findall(r"'/d/(penstock-\w+)\?([^']*)'", str(board["panels"]))
    for uid, parameters in urls:
        named = {variable["name"] for variable in DOCUMENTS[uid]["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", parameters)) <= named
        assert "${__url_time_range}" in parameters


def test_alerts_link_to_dashboards_and_variables_that_are_there() -> None:
    for alerts in groups().values():
        for alert in alerts:
            named = {
                variable["name"]
                for variable in DOCUMENTS[alert.dashboard]["templating"]["list"]
            }
            assert set(alert.labels) <= named, alert.name


@of_each(DOCUMENTS)
def test_annotations(board: Json) -> None:
    _, restarts, firing = board["annotations"]["list"]
    for annotation in (restarts, firing):
        assert problems(substituted(annotation["expr"]), KNOWN) == []
        assert annotation["target"]["expr"] == annotation["expr"], (
            "as Grafana 10 asks, and later ones"
        )
    assert 'alertstate="firing"' in firing["expr"]


@pytest.mark.slow  # all boards or rules
def test_every_family_of_brokers_is_shown_somewhere() -> None:
    """Or it is said why not."""
    used = {
        str(selector.name)
        for query in QUERIES
        for selector, _ in selectors(substituted(query.expr))
    }
    shown = {name for name in KNOWN if name.startswith(("mq_", "penstock_"))}
    assert shown - used == UNSHOWN.keys()


UNSHOWN = {
    "mq_queue_messages_redistributed_total": "of rules: the sums over a cluster subtract it",
    "mq_address_in_incident": "of rules: the table of incidents shows them",
    "mq_queue_in_incident": "of rules: the table of incidents shows them",
    "mq_client_in_incident": "of rules: the table of incidents shows them",
    "mq_incident": "the status page shows incidents, and all alerts are shown",
    "mq_broker_prepared_transactions": "the alert PenstockInDoubt shows it",
    "mq_address_limit_messages": "limits in messages are rare, the fill shows both",
    "mq_broker_unhealthy": "PenstockTwoActives is shown with all alerts",
    "mq_broker_labels": "what its labels are is the operator's; they are for joins",
    "mq_queue_paused": "the condition paused shows it",
    "penstock_config_last_reload_success_timestamp_seconds": "the alert tells it",
    "penstock_config_reload_failures_total": "the alert tells it",
    "penstock_discovery_failures_total": "what lasts is penstock_discovery_faults",
    "penstock_logins_refused_total": "the event login_refused says it",
    "penstock_logins_unchecked_total": "the event login_refused says it",
    "penstock_worker_up": "its brokers are down then, which is shown and told",
    "penstock_worker_starts_total": "the event worker_end says it",
    "penstock_worker_unanswered_total": "its brokers are down then, which is shown and told",
    "penstock_worker_cpu_seconds_total": "the container's use has it, too",
    "penstock_worker_resident_memory_bytes": "the container's use has it, too",
}


def test_the_documentation_asks_for_the_losses_as_the_dashboard_does() -> None:
    page = (FOLDER.parent / "docs" / "account.md").read_text()
    (query,) = re.findall(r"```promql\n(.*?)```", page, re.DOTALL)
    assert problems(query, KNOWN) == []
    assert {
        frozenset(one.split("|")) for one in re.findall(r'fate=~"([^"]*)"', query)
    } == {frozenset(LOSSES)}


def test_what_rings_drop_is_no_alarm_but_what_clients_gave_back_to_them_is() -> None:
    shown = {one.panel: one.expr for one in QUERIES if one.board == "penstock-messages"}
    (rings,), (others,) = (
        {
            frozenset(one.split("|"))
            for one in re.findall(r'fate=~?"([^"]*)"', shown[panel])
        }
        for panel in ("Dropped by rings", "Lost otherwise")
    )
    assert (rings, others) == (frozenset({"evicted"}), frozenset(LOSSES) - {"evicted"})
    assert "mq_queue_messages_lost_by_consumer_total" in shown["Lost otherwise"]


@pytest.mark.parametrize("board", ["penstock-fleet", "penstock-broker"])
def test_queues_and_incidents_with_the_worst_condition_come_first_and_are_never_left_out(
    board: str,
) -> None:
    tables = [
        one
        for one in json.loads(dashboard_files()[f"{board}.json"])["panels"]
        if one["type"] == "table"
    ]
    first = {one["title"]: one["options"]["sortBy"][0]["displayName"] for one in tables}
    assert first["Queues"] == "Worst condition"
    assert first["Incidents"] == first["Active conditions"] == "Severity"
    assert {one["title"] for one in tables if one["gridPos"]["y"] < 16} >= {
        "Incidents",
        "Active conditions",
    }
    for panel in tables:
        if (
            panel["title"] == "Queues"
        ):  # each column is of the rows with a condition, and of those with most ready
            rows = [
                target["expr"].partition(") (topk(")[2] for target in panel["targets"]
            ]
            assert all(
                "mq_queue_unhealthy" in one and "mq_queue_ready_messages" in one
                for one in rows
            )


@pytest.mark.slow  # all boards or rules
def test_no_dashboard_sums_by_a_label_that_changes_on_reconnect() -> None:
    for query in QUERIES:
        for node, _ in nodes(promql.parse(substituted(query.expr))):
            if (
                isinstance(node, promql.AggregateExpr)
                and str(node.op) == "sum"
                and node.modifier is not None
            ):
                assert not {"consumer", "connection"} & set(node.modifier.labels)


def test_dashboards_have_names_of_their_own() -> None:
    assert (
        len({one.uid for one in DASHBOARDS})
        == len({one.title for one in DASHBOARDS})
        == len(DASHBOARDS)
        == 8
    )
