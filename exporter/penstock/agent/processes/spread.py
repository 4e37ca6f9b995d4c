"""What the server and the terminal ask, of brokers here and in worker processes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.agent.lookups import Lookups
from penstock.agent.processes.pool import WorkerPool
from penstock.config import Config
from penstock.insight import answers, lists
from penstock.insight.answers import BrokerState
from penstock.insight.events import Event
from penstock.insight.explain import NotFound, near
from penstock.insight.lists import ListQuery
from penstock.server.request_limit import Busy

ListT = TypeVar("ListT", answers.QueueList, answers.ClientList, answers.ConsumerList, answers.ConditionList)


class SpreadLookups:
    """`penstock.server.view.AgentView`: who has a broker is asked for it. Raises Busy where that one does not answer.

    Of all brokers, those are left out whose process does not answer, as those are that cannot be read: their state says it.
    """

    def __init__(self, here: Lookups, pool: WorkerPool, config: Callable[[], Config]) -> None:
        self._here, self._pool, self._config = here, pool, config
        self.exposition, self.reload = here.exposition, here.reload
        self.events = here.events

    def masked_config(self) -> str:
        return self._config().masked_yaml()

    def ready(self) -> tuple[bool, str]:
        waiting = [state.name for state in self.brokers() if state.up is None]
        return (False, f"waiting for the first poll of {', '.join(sorted(waiting))}") if waiting else (True, "ready")

    def brokers(self) -> Sequence[BrokerState]:
        states = {state.name: state for state in (*self._here.brokers(), *self._pool.states())}
        return [states[broker.name] for broker in self._config().brokers if broker.name in states]

    def queues(self, broker: str, query: ListQuery, points: int = 0) -> answers.QueueList:
        return self._listed(self._here.queues, broker, query, points)

    def clients(self, broker: str, query: ListQuery, points: int = 0) -> answers.ClientList:
        return self._listed(self._here.clients, broker, query, points)

    def conditions(self, broker: str, query: ListQuery) -> answers.ConditionList:
        return self._listed(self._here.conditions, broker, query)

    def consumers(self, broker: str, query: ListQuery) -> answers.ConsumerList:
        return self._listed(self._here.consumers, broker, query)

    def explain(self, broker: str, queue: str, address: str | None, client: str | None) -> answers.Explanation:
        return self._of_one(self._here.explain, broker, queue, address, client)

    def account(self, broker: str, name: str) -> answers.AccountList:
        return self._of_one(self._here.account, broker, name)

    def client(self, broker: str, client: str) -> answers.ClientView:
        return self._of_one(self._here.client, broker, client)

    def recent(self, broker: str, queue: str, address: str | None) -> answers.Recent:
        return self._of_one(self._here.recent, broker, queue, address)

    def _of_one(self, here: Callable[..., Any], broker: str, *arguments: Any) -> Any:
        """The answer of who polls it; of `here`, a look-up of this process, where nobody else does."""
        names = [one.name for one in self._config().brokers]
        if broker not in names:
            raise NotFound(f"there is no broker {broker!r}", near(broker, names, "brokers"))
        worker = self._pool.assigned.get(broker)
        return here(broker, *arguments) if worker is None else worker.ask(here.__name__, broker, *arguments)

    def _listed(self, here: Callable[..., ListT], broker: str, query: ListQuery, *arguments: Any) -> ListT:
        if broker:
            found: ListT = self._of_one(here, broker, query, *arguments)
            return found
        if not self._pool.workers:
            return here("", query, *arguments)
        first = lists.first_rows(query)
        found_lists = [here("", first, *arguments)]
        for worker in self._pool.workers:
            try:
                found_lists.append(worker.ask(here.__name__, "", first, *arguments))
            except Busy:
                continue
        return lists.merged(found_lists, query, [one.name for one in self._config().brokers])
