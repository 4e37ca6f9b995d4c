"""`penstock explain`: what is wrong with a broker, queue or client, since when, on what evidence, and what to do."""

from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from msgspec.structs import replace

from penstock.agent import Result
from penstock.assessment.object_state import CALM, ObjectState
from penstock.cli import completion, logs, options
from penstock.cli.client import ask
from penstock.cli.polling import open_poller, polls_of
from penstock.config import load
from penstock.core.errors import PenstockError
from penstock.insight.answers import (
    BrokerList,
    ConditionList,
    Explanation,
    IncidentList,
    ObjectView,
)
from penstock.insight.explain import BrokerView, NotFound
from penstock.insight.explain import explain as explain_queue
from penstock.insight.lists import ListQuery, condition_list, incident_list
from penstock.insight.objects import explain_address, explain_broker, explain_connection
from penstock.insight.text import explanation, object_lines
from penstock.tui.lines import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST = 50
"""Conditions of a broker that are shown in full, the worst."""


AnswerT = TypeVar("AnswerT")


class Ask(Protocol):
    """Asks an agent, as `client.ask` from the path on."""

    async def __call__(
        self, path: str, kind: type[AnswerT], /, **parameters: str | float | None
    ) -> AnswerT:
        """Return the agent's answer at the path, which is of this kind."""


@options.command()
@click.argument("broker", required=False, shell_complete=completion.brokers)
@click.argument("queue", required=False, shell_complete=completion.queues)
@click.argument("client", required=False, shell_complete=completion.clients)
@click.option("--address")
@click.option("--connection")
@options.agent_url
@options.http_config_file
@options.in_place_of_agent
@click.option("--polls", type=click.IntRange(min=1, max=1000), default=3)
@options.form
async def explain(  # noqa: PLR0913, PLR0917 - the command's options
    broker: str | None, queue: str | None, client: str | None, address: str | None, connection: str | None, url: str,
    http_config_file: Path | None, config_file: Path | None, polls: int, form: str,
) -> int:  # fmt: skip
    """Explain the worst condition, or a BROKER, QUEUE or CLIENT: what is wrong, on what evidence, what to do.

    Without a name: the worst of all brokers. With a BROKER: its incidents first. With a QUEUE: its clients too; a
    CLIENT is one of them. With --config.file, conditions that need more time than --polls covers are not found: ask a
    running agent for those. Exit status 1 where it is critical, a warning, unknown, stale or down.
    """
    logs.set_up("error", "logfmt")
    asked: Ask = partial(ask, url, http_config_file)
    if config_file is not None:
        asked = partial(of_view, await polled(config_file, broker, polls))
    if broker is None:
        brokers = (await asked("/api/v1/brokers", BrokerList)).rows
        down = [listed_broker for listed_broker in brokers if listed_broker.up is False]
        unknown = [
            listed_broker
            for listed_broker in brokers
            if listed_broker.state == ObjectState.UNKNOWN
        ]
        worst = await asked("/api/v1/conditions", ConditionList, limit=1)
        roots = await asked("/api/v1/incidents", IncidentList, limit=1)
        if form == "text":
            say(
                *(
                    f"{listed_broker.name} is down: {listed_broker.error}"
                    for listed_broker in down
                )
            )
        if not worst.rows and not roots.rows:
            lines = [
                f"Not all of {listed_broker.name} was read or judged: see `penstock explain {listed_broker.name}`."
                for listed_broker in unknown
            ]
            if not down and not unknown:
                lines = ["No active conditions."]
            options.show(worst, lines, form)
            return int(bool(down or unknown))
        first, *_ = worst.rows or roots.rows
        broker, queue, address = (
            getattr(first, name, "") or None for name in ("broker", "queue", "address")
        )
    answer: Explanation | ObjectView
    if queue is not None:
        names = {"queue": queue, "address": address, "client": client}
        answer = await asked("/api/v1/explain", Explanation, broker=broker, **names)
    elif connection or address:
        kind = "connection" if connection else "address"
        answer = await asked(
            f"/api/v1/{kind}",
            ObjectView,
            broker=broker,
            **{kind: connection or address},
        )
    else:
        active = await asked(
            "/api/v1/conditions", ConditionList, broker=broker, limit=MOST
        )
        answer = replace(
            await asked("/api/v1/broker", ObjectView, broker=broker),
            conditions=active.rows,
        )
    options.show(
        answer,
        explanation(answer)
        if isinstance(answer, Explanation)
        else object_lines(answer),
        form,
    )
    return int(answer.knowledge.state not in CALM)


async def polled(config_file: Path, broker: str | None, polls: int) -> BrokerView:
    """What a few polls of our own show."""
    config = load(config_file)
    chosen = options.chosen(config, broker)
    poller = open_poller(config, chosen)
    async with aclosing(polls_of(poller, config.interval_of(chosen), polls)) as made:
        async for poll in made:
            if poll.result is Result.FAILED:
                raise PenstockError(poll.error)
    assert poller.assessor.view is not None  # noqa: S101 - a poll has succeeded
    return poller.assessor.view


async def of_view(view: BrokerView, path: str, _: type, /, **given: Any) -> Any:
    """What an agent answers at this path, of a view of our own."""
    given.pop("broker", None)
    look_ups: Mapping[str, Callable[..., Any]] = {
        "broker": explain_broker,
        "address": explain_address,
        "connection": explain_connection,
        "explain": explain_queue,
    }
    match path.rpartition("/")[2]:
        case "brokers":
            return BrokerList([])
        case "conditions":
            return condition_list([view], ListQuery(**given))
        case "incidents":
            return incident_list([view], ListQuery(**given))
        case name:
            try:
                return look_ups[name](view, **given, failing=None)
            except NotFound as error:
                raise PenstockError(f"{error}; {error.hint}") from None
