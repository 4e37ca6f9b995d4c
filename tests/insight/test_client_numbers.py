"""A client's acknowledgements count before they are committed, and when they are rolled back: the number says so."""

import tomllib
from importlib.resources import files

import pytest

from account.openmq_world import openmq_broker
from penstock.exposition.catalogue import DECLARED
from penstock.insight.explain import BrokerView, explain
from penstock.insight.text import explanation
from penstock.server.api import ROUTES
from penstock.server.openapi import described

NAME = "acknowledged, also uncommitted and rolled back"


def view_of_a_client_that_rolls_back() -> BrokerView:
    """It took 40 messages, gave back 35 of them, and the queue let go of 5."""
    broker = openmq_broker().see(10, 0, 10, consumers={"app": (0, 10)}, polls=3)
    broker.see(15, 5, 10, consumers={"app": (40, 10)}, polls=2)
    assert broker.last is not None
    return BrokerView(
        broker.state, broker.tables, broker.last, broker.policy, broker.step
    )


def test_explain_says_it_of_a_client_and_not_of_its_queue() -> None:
    queue = explain(view_of_a_client_that_rolls_back(), "q")
    text = explanation(queue)
    (line,) = [line for line in text if "delivered" in line]
    assert f"{NAME} 40" in line
    assert line.count("acknowledged") == 1


@pytest.mark.parametrize("template", ["client.html", "queue.html", "parts.html"])
def test_the_tables_of_clients_and_consumers_say_it(template: str) -> None:
    text = files("penstock.server.pages").joinpath("templates", template).read_text()
    assert f">{NAME.capitalize()}</th>" in text
    assert ">Acknowledged</th>" not in text


@pytest.mark.parametrize("schema", ["Client", "Consumer"])
def test_the_description_of_the_api_says_it(schema: str) -> None:
    assert NAME in " ".join(
        described(ROUTES)["components"]["schemas"][schema]["description"].split()
    )


def test_the_metric_says_it() -> None:
    metric = "mq_client_acknowledged_messages_total"
    family = DECLARED[metric]
    assert NAME in family.help


@pytest.mark.parametrize("level", ["clients", "consumers"])
def test_top_says_it(level: str) -> None:
    levels = tomllib.loads(files("penstock.tui").joinpath("levels.toml").read_text())[
        "levels"
    ]
    (title,) = [
        one["title"]
        for one in levels[level]["columns"]
        if one.get("rate") == "acknowledged"
    ]
    assert title == "Ack+rb"
