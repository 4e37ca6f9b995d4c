import platform

import prometheus_client
import pytest

from exposition.tables import parse, samples
from penstock.exposition.catalogue import CATALOGUE
from penstock.exposition.self_metrics import SelfMetrics
from penstock.exposition.syntax import END, Format

RELOADED = "penstock_config_last_reload_successful"
FAILURES = "penstock_config_reload_failures_total"
RELOADED_AT = "penstock_config_last_reload_success_timestamp_seconds"


def values(own: SelfMetrics, form: Format) -> dict[str, float]:
    return {
        name: value
        for (name, _), value in samples(form, own.render(form) + END[form]).items()
    }


@pytest.mark.parametrize("form", Format)
def test_build(form: Format) -> None:
    labels = (
        ("pythonversion", platform.python_version()),
        ("revision", "abc"),
        ("version", "1.2.3"),
    )
    found = samples(form, SelfMetrics("1.2.3", "abc").render(form) + END[form])
    assert found["penstock_build_info", labels] == 1


@pytest.mark.parametrize("form", Format)
def test_reloads(form: Format) -> None:
    own = SelfMetrics("1")
    assert RELOADED not in values(own, form)
    own.config_loaded(1795216145.5)
    assert (values(own, form)[RELOADED], values(own, form)[RELOADED_AT]) == (
        1,
        1795216145.5,
    )
    assert values(own, form)[FAILURES] == 0
    own.config_refused()
    assert (values(own, form)[RELOADED], values(own, form)[RELOADED_AT]) == (
        0,
        1795216145.5,
    )
    own.config_loaded(1795217000.0)
    assert (values(own, form)[RELOADED], values(own, form)[FAILURES]) == (1, 1)


@pytest.mark.parametrize("form", Format)
def test_help_and_type_come_from_the_catalogue(form: Format) -> None:
    own = SelfMetrics(
        "1",
        asked=lambda: {
            family.column: 1.0 for family in CATALOGUE if family.table == "agent"
        },
    )
    own.watched({"b1": {"team": "payments"}}, ["b1", "b2"])
    shown = {
        metric.name: metric for metric in parse(form, own.render(form) + END[form])
    }
    for family in CATALOGUE:
        if family.table == "agent":
            metric = shown[
                family.name.removesuffix(
                    "_info" if form is Format.OPENMETRICS else ""
                ).removesuffix("_total")
            ]
            assert metric.documentation == family.documentation
            assert metric.type == (
                "gauge"
                if form is Format.TEXT and family.type == "info"
                else family.type
            )


@pytest.mark.parametrize("form", Format)
def test_labels_of_brokers_differ_from_row_to_row(form: Format) -> None:
    own = SelfMetrics("1")
    own.watched(
        {"b1": {"team": 'a"b\\c\nd'}, "b2": {}, "b3": {"site": "x", "team": ""}},
        ["b1", "b2", "b3"],
    )
    found = samples(form, own.render(form) + END[form])
    assert {
        labels: value
        for (name, labels), value in found.items()
        if name == "mq_broker_labels"
    } == {
        (("broker", "b1"), ("label_team", 'a"b\\c\nd')): 1,
        (("broker", "b3"), ("label_site", "x"), ("label_team", "")): 1,
    }
    assert values(own, form)["penstock_brokers"] == 3
    own.watched({"b2": {}}, ["b2"])
    assert b"mq_broker_labels" not in own.render(form)


@pytest.mark.parametrize("form", Format)
def test_what_others_count_is_asked_for_when_it_is_shown(form: Format) -> None:
    counted = {"history_dropped_polls": 1.0, "history_publish_timestamp": float("nan")}
    own = SelfMetrics("1", asked=lambda: counted)
    assert values(own, form)["penstock_history_polls_dropped_total"] == 1
    assert "penstock_history_publish_timestamp_seconds" not in values(own, form)
    counted["history_dropped_polls"] = 2.0
    assert values(own, form)["penstock_history_polls_dropped_total"] == 2


@pytest.mark.skipif(
    platform.system() != "Linux", reason="prometheus_client reads /proc"
)
@pytest.mark.parametrize("form", Format)
def test_process(form: Format) -> None:
    found = values(SelfMetrics("1"), form)
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_open_fds"] > 0


@pytest.mark.parametrize("form", Format)
def test_a_metric_of_its_own_registry_only_and_without_created(form: Format) -> None:
    own = SelfMetrics("1")
    prometheus_client.Counter(
        "penstock_scrapes", "Scrapes.", registry=own.registry
    ).inc()
    text = own.render(form)
    assert b"penstock_scrapes_total 1.0" in text
    assert b"_created" not in text
    assert b"python_gc" not in text  # stands in the library's global registry
    assert b"penstock_scrapes" not in SelfMetrics("1").render(form)


def test_no_end_mark() -> None:
    assert b"EOF" not in SelfMetrics("1").render(Format.OPENMETRICS)


@pytest.mark.parametrize("form", Format)
def test_brokers_of_other_shards_are_expected_too(form: Format) -> None:
    """So that one whose agent is gone is missed by the others."""
    own = SelfMetrics("1")
    assert b"penstock_broker_expected" not in own.render(form)
    own.watched({"b1": {}}, ["b1", 'b"2'])
    found = samples(form, own.render(form) + END[form])
    expected = [labels for name, labels in found if name == "penstock_broker_expected"]
    assert expected == [(("broker", "b1"),), (("broker", 'b"2'),)]
    assert values(own, form)["penstock_brokers"] == 1
    own.watched({}, [])
    assert b"penstock_broker_expected" not in own.render(form)
