"""Look-ups answer the questions of the server and the terminal, here or in the process that polls the broker."""

import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from msgspec import UNSET

from penstock.agent.assessor import Result
from penstock.agent.factory import policy_of
from penstock.agent.fleet import Fleet
from penstock.agent.journal import Journal
from penstock.agent.poller import Poller
from penstock.agent.processes.handle import WorkerProcess
from penstock.agent.recent import (
    HOUR,
    Recent,
    queue_recent,
    time_series_values,
    with_history,
)
from penstock.agent.saved_events import KEPT
from penstock.assessment.object_state import ObjectState
from penstock.config import Broker
from penstock.core.errors import Hinted
from penstock.exposition.body import Exposition
from penstock.insight import answers, lists, objects
from penstock.insight.answers import BrokerState, Related
from penstock.insight.events import Event
from penstock.insight.explain import BrokerView, NotFound, explain, findings, near
from penstock.insight.knowledge import Failing
from penstock.insight.lists import ListQuery, client_view
from penstock.insight.sheets import sheets
from penstock.server.request_limit import Busy

if TYPE_CHECKING:
    from penstock.history.ranges import HistoryReader

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
Look = Callable[Concatenate["Lookups", str, P], AnswerT]


def where_polled(look_up: Look[P, AnswerT]) -> Look[P, AnswerT]:
    """Answered by the process that polls the broker; of all brokers by all processes, merged."""

    @wraps(look_up)
    def answered(
        self: "Lookups", broker: str, /, *given: P.args, **named: P.kwargs
    ) -> AnswerT:
        others = self.elsewhere()
        name = look_up.__name__
        answer: AnswerT
        if broker in others:
            answer = others[broker].ask(name, broker, *given, named=named)
            return answer
        if broker or not others:
            return look_up(self, broker, *given, **named)
        query, *more = cast("tuple[object, ...]", given)
        if not isinstance(query, ListQuery):
            return look_up(self, broker, *given, **named)
        first = lists.first_rows(query)
        own_answer = cast("Any", look_up)(self, "", first, *more, **named)
        answer = lists.merged(
            [own_answer, *self.asked(name, "", first, *more, named=named)],
            query,
            self._names(),
        )
        return answer

    return answered


class Lookups:
    """The agent as the server sees it; any thread may ask. elsewhere: who polls what is not polled here, by name.
    history: what reads it, None where none is kept.
    """

    def __init__(
        self,
        fleet: Fleet,
        journal: Journal,
        exposition: Exposition,
        reload: Callable[[], Coroutine[object, None, None]],
        elsewhere: Callable[[], Mapping[str, WorkerProcess]] = dict,
        history: Callable[[], "HistoryReader | None"] = lambda: None,
    ) -> None:
        self._fleet = fleet
        self._journal = journal
        self.exposition = exposition
        self.reload = reload
        self.elsewhere = elsewhere
        self._history = history

    def _names(self) -> list[str]:
        return [broker.name for broker in self._fleet.config.brokers]

    def ready(self) -> tuple[bool, str]:
        waiting = [
            name
            for name, polled in self._fleet.polled.items()
            if polled.poller.last is None
        ]
        others = self.elsewhere()
        waiting += [
            name
            for name in self._names()
            if name in others and not others[name].blocks[name].published.families
        ]
        return (
            (False, f"waiting for the first poll of {', '.join(sorted(waiting))}")
            if waiting
            else (True, "ready")
        )

    def links(self) -> Mapping[str, str]:
        return self._fleet.config.links

    def masked_config(self) -> str:
        return self._fleet.config.masked_yaml()

    def brokers(self) -> Sequence[BrokerState]:
        return [self._state(broker) for broker in self._fleet.config.brokers]

    def _state(self, broker: Broker) -> BrokerState:
        try:
            return self.broker(broker.name)
        except Hinted as error:
            up = False if isinstance(error, Busy) else None
            why = str(error)
            state = ObjectState.UNKNOWN if up is None else ObjectState.DOWN
            return BrokerState(
                name=broker.name,
                state=state,
                kind=broker.kind,
                version="",
                role="",
                up=up,
                age=None,
                error=why,
            )

    @where_polled
    def broker(self, broker: str) -> BrokerState:
        """NotFound: it is not polled yet."""
        if (polled := self._fleet.polled.get(broker)) is None:
            raise NotFound(f"broker {broker} was not asked yet", "it is soon")
        poll = polled.poller.last
        view = polled.poller.assessor.last_view
        snapshot = view.snapshot if view else None
        about = snapshot.broker if snapshot else None
        return BrokerState(
            name=polled.broker.name,
            state=self._broker_state(broker),
            kind=polled.broker.kind,
            version=about.product_version or about.version if about else "",
            role=next((row.role for row in view.table("broker").index), "")
            if view
            else "",
            up=None if poll is None else poll.result is not Result.FAILED,
            age=None if snapshot is None else max(time.time() - snapshot.stamp, 0.0),
            error=poll.error if poll else "",
            notes=snapshot.notes if snapshot else (),
            findings=findings(view.state.findings.found) if view else (),
            numbers=lists.broker_numbers(view) if view else {},
        )

    def _broker_state(self, broker: str) -> ObjectState:
        poller = self._fleet.polled[broker].poller
        if poller.last is None:
            return ObjectState.UNKNOWN
        if poller.last.result is Result.FAILED or poller.assessor.last_view is None:
            return ObjectState.DOWN
        view, failing = self._last_view(broker)
        return ObjectState(objects.known_broker(view, failing).state)

    @where_polled
    def queues(
        self, broker: str, query: ListQuery, points: int = 0
    ) -> answers.QueueList:
        return lists.queue_list(
            self._views(broker), query, self._time_series("queue", points)
        )

    @where_polled
    def clients(
        self, broker: str, query: ListQuery, points: int = 0
    ) -> answers.ClientList:
        return lists.client_list(
            self._views(broker), query, self._time_series("client", points)
        )

    @where_polled
    def conditions(self, broker: str, query: ListQuery) -> answers.ConditionList:
        return lists.condition_list(self._views(broker), query)

    @where_polled
    def incidents(self, broker: str, query: ListQuery) -> answers.IncidentList:
        return lists.incident_list(self._views(broker), query)

    @where_polled
    def consumers(self, broker: str, query: ListQuery) -> answers.ConsumerList:
        return lists.consumer_list(self._views(broker), query)

    @where_polled
    def explain(
        self, broker: str, queue: str, address: str | None, client: str | None
    ) -> answers.Explanation:
        view, failing = self._last_view(broker)
        return explain(view, queue, address=address, client=client, failing=failing)

    def asked(
        self, look_up: str, *given: object, named: Mapping[str, object] | None = None
    ) -> Iterator[Any]:
        """The answers of the other processes that give one."""
        for other in set(self.elsewhere().values()):
            with contextlib.suppress(Busy):
                yield other.ask(look_up, *given, named=named)

    def address_sums(self, address: str) -> list[objects.AddressSum]:
        """On each broker of this process of which something is known, however old."""
        names = [
            name
            for name, polled in self._fleet.polled.items()
            if polled.poller.assessor.last_view is not None
        ]
        views = [self._last_view(name) for name in names]
        return [objects.address_sum(view, address, failing) for view, failing in views]

    def _parts(self, address: str) -> dict[str, objects.AddressSum]:
        parts = [self.address_sums(address), *self.asked("address_sums", address)]
        return {one.broker: one for some in parts for one in some}

    def clusters(self) -> Sequence[answers.ObjectView]:
        return objects.clusters(self._parts("").values())

    def _cluster(self, broker: str) -> answers.ObjectView:
        for cluster in self.clusters():
            if broker in cluster.name.split(", "):
                return cluster
        raise NotFound(
            f"broker {broker!r} is in no pair or cluster",
            "GET /api/v1/clusters has all of them",
        )

    def _sum_of_address(self, address: str) -> answers.ObjectView:
        parts = self._parts(address)
        missing = [
            broker for broker in self._fleet.config.brokers if broker.name not in parts
        ]
        why = {
            broker.name: self._state(broker).error or "it was not asked yet"
            for broker in missing
        }
        return objects.sum_of_address(address, parts.values(), why)

    @where_polled
    def thing(self, broker: str, kind: str, name: str) -> answers.ObjectView:
        if not broker:
            return (
                self._cluster(name) if kind == "cluster" else self._sum_of_address(name)
            )
        view, failing = self._last_view(broker)
        if kind == "broker":
            return objects.explain_broker(view, failing, self._pair(broker, view))
        explained = (
            objects.explain_address if kind == "address" else objects.explain_connection
        )
        return explained(view, name, failing)

    def _pair(self, broker: str, view: BrokerView) -> Iterator[Related]:
        """Other brokers that serve the node id of this one."""
        node_id = view.snapshot.broker.node_id if view.snapshot.broker else ""
        for other, polled in self._fleet.polled.items():
            last = polled.poller.assessor.last_view
            about = last.snapshot.broker if last else None
            if (
                node_id
                and other != broker
                and about is not None
                and about.node_id == node_id
            ):
                down = (
                    "" if np.isnan(polled.poller.assessor.failing_since) else ", down"
                )
                yield Related(
                    "serves the same node id as", "broker", other, f"{about.role}{down}"
                )

    @where_polled
    def account(self, broker: str, name: str) -> answers.AccountList:
        return sheets(self._last_view(broker)[0], name)

    @where_polled
    def client(self, broker: str, client: str) -> answers.ClientView:
        view, failing = self._last_view(broker)
        return client_view(view, client, objects.known_client(view, client, failing))

    def recent(
        self, broker: str, queue: str, address: str | None, seconds: float = 0.0
    ) -> answers.Recent:
        reader = self._history() if seconds else None
        answer: answers.Recent = self.in_memory(
            broker, queue, address, seconds if reader else HOUR
        )
        if reader is None:
            return answer
        config = self._fleet.config
        (is_shown,) = [
            policy_of(config, one).of_queue
            for one in config.brokers
            if one.name == broker
        ]
        return with_history(
            answer,
            reader.past(
                broker, answer.address, answer.queue, answer.end, seconds, is_shown
            ),
        )

    @where_polled
    def in_memory(
        self, broker: str, queue: str, address: str | None, seconds: float
    ) -> answers.Recent:
        """Return the last hour; conditions of so many `seconds`, as far back as events are kept."""
        view, _ = self._last_view(broker)
        events = self._journal.last(
            KEPT, since=view.snapshot.stamp - seconds, broker=broker, queue=queue
        )
        return queue_recent(self._recent(broker), view, queue, address, events, seconds)

    def events(
        self, *, since: float, limit: int, broker: str, queue: str
    ) -> Sequence[Event]:
        return self._journal.last(limit, since=since, broker=broker, queue=queue)

    def _last_view(self, broker: str) -> tuple[BrokerView, Failing | None]:
        """Return the last view, however old, and why that is not how the broker is now."""
        poller = self._poller(broker)
        view = poller.assessor.last_view
        last = poller.last
        since = poller.assessor.failing_since
        if view is None:
            raise NotFound(
                f"nothing is known of broker {broker} now",
                last.error if last else "it was not asked yet",
            )
        if last is None or np.isnan(since):
            return view, None
        read = view.snapshot.stamp
        return replace(view, stale=read), Failing(
            since, last.error or "it has not been polled since", read
        )

    def _poller(self, broker: str) -> Poller:
        polled = self._fleet.polled
        if broker not in polled:
            raise NotFound(
                f"there is no broker {broker!r}", near(broker, self._names(), "brokers")
            )
        return polled[broker].poller

    def _views(self, broker: str) -> list[BrokerView]:
        """Return the views of this broker; "": of all, without those whose node another one serves now."""
        if broker:
            return [self._last_view(broker)[0]]
        names = [
            polled.broker.name
            for polled in self._fleet.in_order()
            if polled.poller.assessor.last_view is not None
        ]
        views = [self._last_view(name)[0] for name in names]
        served = {view.node_id for view in views if view.stale is UNSET} - {""}
        return [
            view for view in views if view.stale is UNSET or view.node_id not in served
        ]

    def _recent(self, broker: str) -> Recent:
        """Empty for a broker that a reload has just removed."""
        polled = self._fleet.polled.get(broker)
        return Recent() if polled is None else polled.poller.assessor.recent

    def _time_series(self, table: str, points: int) -> lists.SeriesOf:
        """Gives a row's last `points` values that are kept; none at 0."""

        def last_points(view: BrokerView, i: int) -> answers.TimeSeries | None:
            recent = self._recent(view.policy.broker)
            return time_series_values(
                recent.of(table, [i], view.tables[table].index, points), 0
            )

        return last_points if points else lists.no_series
