"""What an operator can do about a condition, with the ids of this broker filled in."""

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from penstock.actions.catalogue import ACTIONS, SOMETIMES, ActionTemplate
from penstock.assessment.assess import State
from penstock.brokers.artemis.requests import queue_object
from penstock.brokers.requests import quote
from penstock.causes.verdict import CauseState
from penstock.conditions.condition import ActiveCondition, Condition
from penstock.conditions.depaging_frozen import DEPAGING_FROZEN
from penstock.conditions.in_doubt import LASTING
from penstock.conditions.wording import KNOBS
from penstock.core.formatting import moment
from penstock.core.table import Column, Mask, Positions, Table
from penstock.insight import answers
from penstock.model import ConsumerRow, QueueRow, Snapshot
from penstock.series.labels import ClientSeries, Grouping

ATTEMPTS = "10 (unless set otherwise)"
"""Delivery attempts where the address settings are not known."""
TO_OTHERS = "and at once to its other consumers"
TO_NONE = "and wait for a consumer: it has no other"
"""Where messages go that are returned."""
CONSUMER_LIMITS = {"artemis": "max-consumers", "openmq": "maxNumActiveConsumers"}
"""By kind of broker the setting that limits the consumers of a queue."""
HOLDS_MOST = frozenset({DEPAGING_FROZEN.name})
"""Conditions of a queue that the consumer brings about which buffers most."""
HANGS = frozenset({"listener_hangs", "frozen", "long_job", "outside"})
"""Causes by which a client hangs, or seems to."""
CANNOT_HANG = {
    "if_it_hangs": "To free its messages at once",
    "last_if_it_hangs": "to free its messages at once",
    "unless_it_hangs": "It does not hang: ",
}
"""In place of `MAY_HANG`: an action is for something else than to end a hang."""
MOST_XIDS = 5
"""Prepared transactions for which a call is written out."""

DEFAULTS: Mapping[str, str] = {
    "used": "bytes",
    "type": "q",
    "attempts": ATTEMPTS,
    "ready": "waiting",
    "next": TO_OTHERS,
    **SOMETIMES,
}
"""Names with what they say where nothing else is known."""
PRODUCERS_GO_ON = " Producers that are blocked go on within seconds."

Names = Mapping[str, str]
"""Texts by the names in braces that they replace."""
Conditions = Iterable[ActiveCondition | None]
Place = tuple[str, str]
"""Address and queue."""


class Actions:
    """What can be done on one broker after a poll; looks up what it needs once."""

    def __init__(self, snapshot: Snapshot, state: State) -> None:
        self._snapshot = snapshot
        self._clients = state.consumers.clients
        self._judgement = state.judgement

    def of(
        self, condition: ActiveCondition, about: Condition, members: Conditions = ()
    ) -> list[answers.Action]:
        """The actions for a condition, in the order in which to try them.

        Args:
            condition: that is active.
            about: its definition for this kind of broker.
            members: all conditions of its incident; several queues with the same condition are named together.
        """
        broker = self._snapshot.broker
        if broker is None:
            return []
        names = self._names(condition) | queues_together(condition, members)
        mbeans = self._mbeans(condition)
        protocol = names.get("protocol", "")
        actions: list[answers.Action] = []
        for template in ACTIONS:
            is_fitting = template.fits(
                condition.name,
                condition.verdicts,
                about.causes,
                broker.kind.name,
                protocol,
            )
            if is_fitting and template.done.isdisjoint(names):
                actions += filled(template, names, mbeans)
        return actions

    # --- names that texts of actions have in braces

    def _names(self, condition: ActiveCondition) -> dict[str, str]:
        """All names that are known for the condition; the later ones win."""
        return {
            **DEFAULTS,
            "limit_name": CONSUMER_LIMITS.get(self._kind, "its limit of consumers"),
            **self._of_address(condition),
            **self._of_consumer(condition),
            **self._of_producer(condition),
            **names_by_verdicts(condition),
            **names_by_place(condition),
            **names_by_evidence(condition),
            **self._of_transactions(),
        }

    def _of_transactions(self) -> dict[str, str]:
        """The ids of transactions that have been prepared for long, as `xid`."""
        ids = dict.fromkeys(self._in_doubt())
        return {"xid": " ".join(ids)} if ids else {}

    def _in_doubt(self) -> Iterator[str]:
        """The ids of transactions that have been prepared for long, the oldest first: others are under way."""
        now = self._judgement.seen.times.now
        prepared_since = self._judgement.account.losses.prepared
        oldest_first = sorted(prepared_since, key=prepared_since.__getitem__)
        for xid in oldest_first:
            if now - prepared_since[xid] >= LASTING:
                yield xid
        for prepared in self._judgement.openmq.prepared.listed:
            if now - prepared.since >= LASTING:
                yield prepared.transaction.id

    def _of_address(self, condition: ActiveCondition) -> dict[str, str]:
        """Settings and numbers of the condition's address and queue."""
        names: dict[str, str] = {}
        addresses = self._snapshot.addresses
        address = self._addresses.get(condition.address)
        if addresses is not None and address is not None:
            names |= names_by_address(addresses, address)
        queues = self._snapshot.queues
        queue = self._queues.get((condition.address, condition.queue))
        if queues is None or queue is None:
            return names
        if "killed" in queues:
            names["killed"] = killed_text(queues["killed"][queue])
        dead_letter_address = queues.index.rows[queue].dead_letter_address
        if dead_letter_address:
            names["dead_letters"] = dead_letter_address
            names["dead_letters_json"] = in_json(dead_letter_address)
        return names

    def _of_consumer(self, condition: ActiveCondition) -> dict[str, str]:
        """The consumer to act on, with its client and connection; empty where none is known."""
        suspect = self._suspect(condition)
        if suspect is None:
            return {}
        row = suspect.row
        protocol = row.protocol.upper()
        names = {
            "client": self._client_of(suspect.position).client,
            "host": row.remote_host or "its host",
            "session": row.session,
            "consumer": row.id,
            "protocol": protocol,
            "knob": KNOBS.get(protocol, ""),
            "held": f"{suspect.buffered:,.0f}",
            "next": self._next_readers(suspect),
            **self._of_connection(condition, suspect),
        }
        return {name: text for name, text in names.items() if text}

    def _of_connection(
        self, condition: ActiveCondition, suspect: "Suspect"
    ) -> dict[str, str]:
        """The connection of the suspect, where closing it hits no innocent client; and how many consumers share it."""
        connections = self._snapshot.connections
        connection = self._connection_of(suspect)
        if connections is None or connection is None:
            return {}
        names: dict[str, str] = {}
        if self._is_at_fault(condition, suspect):
            names["connection"] = connections.index.rows[connection].id
        keys = self._snapshot.consumer_connection
        count = np.count_nonzero(keys == keys[suspect.position])
        if count > 1:
            names["others"] = (
                f"It closes all {count} consumers of the connection: what they buffer returns, too. "
            )
            names["stay"] = (
                f"; its connection and the {count - 1} other consumers of that stay"
            )
        return names

    def _connection_of(self, suspect: "Suspect") -> int | None:
        """The position of the suspect's connection; None where it is not listed."""
        connections = self._snapshot.connections
        if connections is None:
            return None
        key = self._snapshot.consumer_connection[[suspect.position]]
        connection = int(connections.index.positions(key)[0])
        return connection if connection >= 0 else None

    def _next_readers(self, suspect: "Suspect") -> str:
        """Where the messages go that the suspect returns.

        Its connection's other consumers go with it, where the connection is listed.
        """
        keys = self._snapshot.consumer_connection
        if self._connection_of(suspect) is None:
            stays = np.arange(len(keys)) != suspect.position
        else:
            stays = keys != keys[suspect.position]
        return TO_OTHERS if np.any(suspect.readers & stays) else TO_NONE

    def _suspect(self, condition: ActiveCondition) -> "Suspect | None":
        """The consumer that has settled nothing for longest, else the one that buffers most.

        It is one of the client's; where the condition is the queue's, one of the queue's. None: there is none.
        """
        consumers = self._snapshot.consumers
        if consumers is None or not condition.queue:
            return None
        if self._clients.source is not consumers.index:
            return None
        readers = self._reads_queue(condition)
        chosen = readers
        if condition.client:
            chosen = readers & self._is_of_client(condition.client)
        positions = np.flatnonzero(chosen)
        if not len(positions):
            return None
        buffered = buffered_by(consumers, positions)
        since = self._judgement.held_unsettled_since(consumers.index)[positions]
        is_any_unsettled = not np.isnan(since).all()
        worst = int(np.argmax(buffered))
        if is_any_unsettled and condition.name not in HOLDS_MOST:
            worst = int(np.nanargmin(since))
        position = int(positions[worst])
        return Suspect(
            position=position,
            row=consumers.index.rows[position],
            buffered=float(buffered[worst]),
            alternatives=positions,
            readers=readers,
        )

    def _reads_queue(self, condition: ActiveCondition) -> Mask:
        """(consumers,) True where the consumer reads the queue of the condition, and is shown."""
        place = (condition.address, condition.queue)
        return by_series(self._clients, lambda row: (row.address, row.queue) == place)

    def _is_of_client(self, client: str) -> Mask:
        """(consumers,) True where the consumer is of the client, and is shown."""
        return by_series(self._clients, lambda row: row.client == client)

    def _client_of(self, consumer: int) -> ClientSeries:
        """The client of the consumer at this position."""
        member = self._clients.member[consumer]
        series: ClientSeries = self._clients.index.rows[member]
        return series

    def _is_at_fault(self, condition: ActiveCondition, suspect: "Suspect") -> bool:
        """Whether the condition comes from the suspect's connection, so that closing it hits no innocent client."""
        if condition.client or condition.name in HOLDS_MOST:
            return True
        keys = self._snapshot.consumer_connection
        connections = set(keys[suspect.alternatives].tolist())
        blocking = {key for key, _ in self._judgement.openmq.blockers}
        blocking &= connections
        return (blocking or connections) == {int(keys[suspect.position])}

    def _of_producer(self, condition: ActiveCondition) -> dict[str, str]:
        """The one connection that has sent to the address in an open transaction; empty where there are several."""
        connections = self._snapshot.connections
        if connections is None:
            return {}
        keys = self._keys_of_open_senders(condition.address)
        positions = connections.index.positions(keys[keys >= 0])
        if len(positions) != 1 or positions[0] < 0:
            return {}
        row = connections.index.rows[positions[0]]
        return {"producer": row.client, "producer_connection": row.id}

    def _keys_of_open_senders(self, address: str) -> Positions:
        """Keys of the connections that have sent in an open transaction and have a producer for the address."""
        snapshot = self._snapshot
        transactions = snapshot.transactions
        producers = snapshot.producers
        if transactions is None or producers is None:
            return np.empty(0, np.int64)
        if not len(snapshot.producer_connection):
            return np.empty(0, np.int64)
        has_sent = transactions["messages"] > 0
        sends_to_address = np.array(
            [row.address == address for row in producers.index], np.bool_
        )
        return np.intersect1d(
            snapshot.transaction_connection[has_sent],
            snapshot.producer_connection[sends_to_address],
        )

    # --- the objects of the broker

    @property
    def _kind(self) -> str:
        """The kind of the broker; empty while it is not known."""
        return self._snapshot.broker.kind.name if self._snapshot.broker else ""

    def _mbeans(self, condition: ActiveCondition) -> dict[str, str]:
        """The objects of Artemis' management by what a call is on; empty where the broker has none."""
        broker = self._snapshot.broker.object_name if self._snapshot.broker else ""
        if not broker:
            return {}
        address = quote(condition.address)
        mbeans = {
            "broker": broker,
            "address": f"{broker},component=addresses,address={address}",
        }
        queues = self._snapshot.queues
        position = self._queues.get((condition.address, condition.queue))
        if queues is None or position is None:
            return mbeans
        queue = queues.index.rows[position]
        mbeans["queue"] = _object_of(broker, queue)
        dead_letter_queues = [
            row for row in queues.index if row.address == queue.dead_letter_address
        ]
        # Of several queues one may have the dead letters of another client.
        if len(dead_letter_queues) == 1:
            mbeans["dead_letters"] = _object_of(broker, dead_letter_queues[0])
        return mbeans

    @cached_property
    def _addresses(self) -> dict[str, int]:
        """The positions of the addresses by name."""
        addresses = self._snapshot.addresses
        if addresses is None:
            return {}
        return {row.name: i for i, row in enumerate(addresses.index)}

    @cached_property
    def _queues(self) -> dict[Place, int]:
        """The positions of the queues by address and name."""
        queues = self._snapshot.queues
        if queues is None:
            return {}
        return {(row.address, row.name): i for i, row in enumerate(queues.index)}


class Suspect(NamedTuple):
    """The consumer to act on.

    Attributes:
        position: in the snapshot.
        row: its texts.
        buffered: messages that it buffers.
        alternatives: positions of all consumers that the condition is about.
        readers: (consumers,) True for all consumers of the queue.
    """

    position: int
    row: ConsumerRow
    buffered: float
    alternatives: Positions
    readers: Mask


def by_series(
    clients: Grouping[ClientSeries], fits: Callable[[ClientSeries], bool]
) -> Mask:
    """(consumers,) True where the client of the consumer fits; False where the consumer is not shown."""
    # One more, for the consumers that are not shown: their position is HIDDEN, the last.
    fitting = np.array([*map(fits, clients.index), False])
    return np.asarray(fitting[clients.member])


def buffered_by(consumers: Table[ConsumerRow], positions: Positions) -> Column:
    """(positions,) Messages that these consumers buffer; 0 where that is not known."""
    if "buffered" not in consumers:
        return np.zeros(len(positions))
    return np.nan_to_num(consumers["buffered"][positions])


# --- names by what is known of a condition


def names_by_place(condition: ActiveCondition) -> dict[str, str]:
    """Where and since when the condition is active."""
    names = {
        "broker": condition.broker,
        "address": condition.address,
        "queue": condition.queue,
        "queue_json": in_json(condition.queue),
        "since": moment(condition.since, "%H:%M:%S UTC"),
    }
    if condition.address:
        names["destination"] = condition.address.removesuffix(" (topic)")
    if condition.client:
        names["client"] = condition.client
    if condition.name == "producers_blocked":
        names["freed"] = PRODUCERS_GO_ON
    return names


def names_by_verdicts(condition: ActiveCondition) -> dict[str, str]:
    """The facts of proven causes by the names of these; and other words where the client cannot hang."""
    facts = {
        name: verdict.fact
        for name, verdict in condition.verdicts.items()
        if verdict.state is CauseState.PROVEN
    }
    return {**CANNOT_HANG, **facts} if cannot_hang(condition) else facts


def names_by_evidence(condition: ActiveCondition) -> dict[str, str]:
    """The numbers of messages that are the condition's evidence.

    `undelivered` is not known where none is ready: to remove none helps no one.
    """
    evidence = condition.evidence
    names: dict[str, str] = {}
    ready = evidence.get("ready", 0.0)
    if ready:
        names["ready"] = f"{ready:,.0f}"
        names["undelivered"] = f"{ready:,.0f}"
    elif "ready" not in evidence:
        names["undelivered"] = "undelivered"
    if "held" in evidence:
        unsettled = evidence["held"] + evidence.get("uncommitted", 0.0)
        names["held"] = f"{unsettled:,.0f}"
    at_risk = evidence.get("at_risk", 0.0)
    if at_risk > 0:
        names["at_risk"] = (
            f", and {at_risk:,.0f} of them are evicted from the full ring"
        )
    if is_all_uncommitted(condition):
        names["to_fall"] = "uncommitted"
    return names


def names_by_address(addresses: Table[object], address: int) -> dict[str, str]:
    """Settings and numbers of an address. address: its position."""

    def number(name: str) -> float:
        return float(addresses[name][address]) if name in addresses else np.nan

    names: dict[str, str] = {}
    attempts = number("max_delivery_attempts")
    if not np.isnan(attempts):
        names["attempts"] = "unlimited" if attempts < 0 else f"{attempts:.0f}"
    if number("topic") > 0:
        names["type"] = "t"
    if number("memory_bytes") > 0:
        names["used"] = f"{number('memory_bytes'):,.0f} bytes"
    return names


def killed_text(killed: float) -> str:
    """How many messages of the queue were killed, as a sentence; empty where none was."""
    if not killed > 0:
        return ""
    return f" Killed (dead-lettered or purged) until now: {killed:,.0f}."


def queues_together(condition: ActiveCondition, members: Conditions) -> dict[str, str]:
    """The names of all queues of an incident that have the same condition, with their messages; empty for one queue."""
    ready = {
        member.queue: member.evidence.get("ready", 0.0)
        for member in members
        if member and member.name == condition.name
    }
    if condition.client or len(ready) < 2:
        return {}
    queues = [f"{queue} ({count:,.0f} messages)" for queue, count in ready.items()]
    total = sum(ready.values())
    return {"queue": ", ".join(queues), "ready": f"{total:,.0f}"}


def cannot_hang(condition: ActiveCondition) -> bool:
    """Whether every cause by which the client could hang is excluded."""
    states = [
        verdict.state for name, verdict in condition.verdicts.items() if name in HANGS
    ]
    return bool(states) and all(state is CauseState.EXCLUDED for state in states)


def is_all_uncommitted(condition: ActiveCondition) -> bool:
    """Whether the client has acknowledged all its messages, and buffers none that could be evicted."""
    uncommitted = condition.evidence.get("uncommitted", 0.0)
    buffered = condition.evidence.get("held", 0.0)
    return uncommitted > 0 and not buffered > 0


def in_json(text: str) -> str:
    """The text as it stands between the quotes of a JSON string."""
    return json.dumps(text)[1:-1]


# --- filling templates


def filled(
    template: ActionTemplate, names: Names, mbeans: Names
) -> Iterator[answers.Action]:
    """The action; nothing where the template has a name that is not known.

    Args:
        template: with names in braces.
        names: texts that replace them.
        mbeans: objects of management by what a call is on.
    """
    try:
        action = answers.Action(
            name=template.name,
            do=template.do.format_map(names),
            effect=template.effect.format_map(names),
            check=template.check.format_map(names),
            never=template.never.format_map(names),
            right=right_for(template),
            calls=calls_of(template, names, mbeans),
            commands=commands_of(template, names),
        )
    except KeyError:
        return
    yield action


def calls_of(
    template: ActionTemplate, names: Names, mbeans: Names
) -> list[answers.ManagementCall]:
    """The calls of Artemis' management. KeyError: a name is not known."""
    calls = []
    for call in template.calls:
        mbean = mbeans[call.on]
        for each in _each(call.arguments, names):
            arguments = [argument.format_map(each) for argument in call.arguments]
            calls.append(answers.ManagementCall(mbean, call.operation, arguments))
    return calls


def commands_of(template: ActionTemplate, names: Names) -> list[str]:
    """The commands for a shell, with quoted names. KeyError: a name is not known."""
    if not template.command:
        return []
    return [
        template.command.format_map(quoted(each))
        for each in _each(template.command, names)
    ]


def quoted(names: Names) -> dict[str, str]:
    """The names with texts that a shell takes as one word."""
    return {name: shlex.quote(text) for name, text in names.items()}


def right_for(template: ActionTemplate) -> str:
    """The right that the calls or the command of an action need; empty where it has neither."""
    if template.calls:
        operations = [call.operation.partition("(")[0] for call in template.calls]
        return f"a role that may call {', '.join(dict.fromkeys(operations))}"
    return "an administrator of imqcmd" if template.command else ""


def _each(arguments: str | tuple[str, ...], names: Names) -> Iterator[Names]:
    """The names once; for prepared transactions once for each of the first `MOST_XIDS`."""
    if "{xid}" not in arguments:
        yield names
        return
    for xid in names["xid"].split()[:MOST_XIDS]:
        yield {**names, "xid": xid}


def _object_of(broker: str, queue: QueueRow) -> str:
    """The MBean of a queue."""
    return queue_object(broker, queue.address, queue.routing_type.lower(), queue.name)
