"""What an operator can do about a condition, with the ids of this broker filled in."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

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
from penstock.core.table import Positions
from penstock.insight import answers
from penstock.model import QueueRow, Snapshot

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

Names = Mapping[str, str]
"""A name in braces."""
Conditions = Iterable[ActiveCondition | None]


class Actions:
    """What can be done on one broker after a poll; looks up what it needs once."""

    def __init__(self, snapshot: Snapshot, state: State) -> None:
        self._snapshot = snapshot
        self._clients = state.consumers.clients
        self._judgement = state.judgement

    def of(
        self, one: ActiveCondition, about: Condition, beside: Conditions = ()
    ) -> list[answers.Action]:
        """In the order in which to try them. about: the condition on this kind of broker. beside: those of one root."""
        broker = self._snapshot.broker
        if broker is None:
            return []
        names = self._names(one)
        mbeans = self._mbeans(one)
        ready = {
            each.queue: each.evidence.get("ready", 0.0)
            for each in beside
            if each and each.name == one.name
        }
        if len(ready) > 1 and not one.client:
            several = ", ".join(
                f"{queue} ({count:,.0f} messages)" for queue, count in ready.items()
            )
            names |= {"queue": several, "ready": f"{sum(ready.values()):,.0f}"}
        known = about.causes, broker.kind.name, names.get("protocol", "")
        fitting = [
            action
            for action in ACTIONS
            if action.fits(one.name, one.verdicts, *known)
            and action.done.isdisjoint(names)
        ]
        return [one for action in fitting for one in filled(action, names, mbeans)]

    # --- what is known

    def _names(self, one: ActiveCondition) -> dict[str, str]:
        names = {
            "broker": one.broker,
            "address": one.address,
            "queue": one.queue,
            "used": "bytes",
            "type": "q",
        }
        names |= {
            "attempts": ATTEMPTS,
            "ready": "waiting",
            "undelivered": "undelivered",
            "next": TO_OTHERS,
        }
        names |= SOMETIMES | {"since": moment(one.since, "%H:%M:%S UTC")}
        names["freed"] = " Producers that are blocked go on within seconds." * (
            one.name == "producers_blocked"
        )
        names |= self._of_address(one) | self._of_consumer(one) | self._of_producer(one)
        names["limit_name"] = CONSUMER_LIMITS.get(self._kind, "its limit of consumers")
        if cannot_hang(one):
            names |= CANNOT_HANG
        if is_all_uncommitted(one):
            names["to_fall"] = "uncommitted"
        names |= {
            name: verdict.fact
            for name, verdict in one.verdicts.items()
            if verdict.state is CauseState.PROVEN
        }
        names["queue_json"] = json.dumps(one.queue)[1:-1]
        if one.address:
            names["destination"] = one.address.removesuffix(" (topic)")
        if one.client:
            names["client"] = one.client
        if ready := one.evidence.get("ready", 0.0):
            names["ready"] = names["undelivered"] = f"{ready:,.0f}"
        elif "ready" in one.evidence:
            del names["undelivered"]  # to remove none helps no one
        if "held" in one.evidence:
            names["held"] = (
                f"{one.evidence['held'] + one.evidence.get('uncommitted', 0.0):,.0f}"
            )
        if (at_risk := one.evidence.get("at_risk", 0.0)) > 0:
            names["at_risk"] = (
                f", and {at_risk:,.0f} of them are evicted from the full ring"
            )
        if xids := " ".join(dict.fromkeys(self._in_doubt())):
            names["xid"] = xids
        return names

    def _in_doubt(self) -> Iterator[str]:
        """Transactions that have been prepared for long, the oldest first: others are under way."""
        now = self._judgement.seen.times.now
        seen = self._judgement.account.losses.prepared
        yield from (
            xid
            for xid, at in sorted(seen.items(), key=lambda one: one[1])
            if now - at >= LASTING
        )
        for one in self._judgement.openmq.prepared.listed:
            if now - one.since >= LASTING:
                yield one.transaction.id

    def _of_address(self, one: ActiveCondition) -> dict[str, str]:
        found = {}
        addresses = self._snapshot.addresses
        i = self._addresses.get(one.address)
        if addresses is not None and i is not None:
            if "max_delivery_attempts" in addresses and not np.isnan(
                addresses["max_delivery_attempts"][i]
            ):
                attempts = addresses["max_delivery_attempts"][i]
                found["attempts"] = "unlimited" if attempts < 0 else f"{attempts:.0f}"
            if "topic" in addresses and addresses["topic"][i] > 0:
                found["type"] = "t"
            if "memory_bytes" in addresses and addresses["memory_bytes"][i] > 0:
                found["used"] = f"{addresses['memory_bytes'][i]:,.0f} bytes"
        row = self._queues.get((one.address, one.queue))
        if (queues := self._snapshot.queues) is not None and "killed" in queues:
            killed = dict(zip(self._queues, queues["killed"], strict=False)).get(
                (one.address, one.queue), 0.0
            )
            found["killed"] = (
                f" Killed (dead-lettered or purged) until now: {killed:,.0f}."
                if killed > 0
                else ""
            )
        if row is not None and row.dead_letter_address:
            found["dead_letters"] = row.dead_letter_address
            found["dead_letters_json"] = json.dumps(row.dead_letter_address)[1:-1]
        return found

    def _of_consumer(self, one: ActiveCondition) -> dict[str, str]:
        """Of the client's consumer that has settled nothing for longest, else buffers most; of the queue's where the
        condition is the queue's.
        """
        consumers = self._snapshot.consumers
        connections = self._snapshot.connections
        clients = self._clients
        if consumers is None or not one.queue or clients.source is not consumers.index:
            return {}
        of_queue = np.array(
            [
                *(
                    (row.address, row.queue) == (one.address, one.queue)
                    for row in clients.index
                ),
                False,
            ]
        )
        wanted = (
            np.array(
                [*(one.client in ("", row.client) for row in clients.index), False]
            )
            & of_queue
        )
        rows = np.flatnonzero(wanted[clients.member])
        if not len(rows):
            return {}
        buffered = (
            np.nan_to_num(consumers["buffered"][rows])
            if "buffered" in consumers
            else np.zeros(len(rows))
        )
        since = self._judgement.held_unsettled_since(consumers.index)[rows]
        holds_longest = not np.isnan(since).all() and one.name not in HOLDS_MOST
        worst = int(np.nanargmin(since)) if holds_longest else int(np.argmax(buffered))
        i = int(rows[worst])
        row = consumers.index.rows[i]
        protocol = consumers.index.rows[i].protocol.upper()
        keys = self._snapshot.consumer_connection
        at = (
            -1
            if connections is None
            else int(connections.index.positions(keys[[i]])[0])
        )
        stays = keys != keys[i] if at >= 0 else np.arange(len(keys)) != i
        may_be_closed = (
            connections is not None and at >= 0 and self._is_at_fault(one, rows, i)
        )
        connection = (
            connections.index.rows[at].id
            if connections is not None and may_be_closed
            else ""
        )
        found = {
            "client": clients.index.rows[clients.member[i]].client,
            "host": row.remote_host or "its host",
            "session": row.session,
            "consumer": row.id,
            "protocol": protocol,
            "knob": KNOBS.get(protocol, ""),
            "held": f"{buffered[worst]:,.0f}",
            "connection": connection,
            "next": TO_OTHERS if np.any(of_queue[clients.member] & stays) else TO_NONE,
        }
        if at >= 0 and (count := np.count_nonzero(keys == keys[i])) > 1:
            found["others"] = (
                f"It closes all {count} consumers of the connection: what they buffer returns, too. "
            )
            found["stay"] = (
                f"; its connection and the {count - 1} other consumers of that stay"
            )
        return {name: text for name, text in found.items() if text}

    def _is_at_fault(self, one: ActiveCondition, rows: Positions, at: int) -> bool:
        """Whether the connection of the consumer `at` is the one that the condition comes from, so that closing it hits
        no innocent client. rows: the consumers that the condition is about.
        """
        keys = self._snapshot.consumer_connection
        if one.client or one.name in HOLDS_MOST:
            return True
        blockers = {key for key, _ in self._judgement.openmq.blockers} & set(
            keys[rows].tolist()
        )
        if blockers:
            return blockers == {int(keys[at])}
        return bool((keys[rows] == keys[at]).all())

    def _of_producer(self, one: ActiveCondition) -> dict[str, str]:
        """Of the one connection that has sent to the address in a transaction that is open; nothing of several."""
        snapshot = self._snapshot
        transactions = snapshot.transactions
        producers = snapshot.producers
        connections = snapshot.connections
        if (
            transactions is None
            or producers is None
            or connections is None
            or not len(snapshot.producer_connection)
        ):
            return {}
        has_sent = transactions["messages"] > 0
        in_transaction = snapshot.transaction_connection[has_sent]
        sends_here = np.array(
            [row.address == one.address for row in producers.index], np.bool_
        )
        suspects = np.intersect1d(
            in_transaction, snapshot.producer_connection[sends_here]
        )
        at = connections.index.positions(suspects[suspects >= 0])
        if len(at) != 1 or at[0] < 0:
            return {}
        row = connections.index.rows[at[0]]
        return {"producer": row.client, "producer_connection": row.id}

    @property
    def _kind(self) -> str:
        return self._snapshot.broker.kind.name if self._snapshot.broker else ""

    def _mbeans(self, one: ActiveCondition) -> dict[str, str]:
        """The objects of Artemis' management, by what a call is on."""
        broker = self._snapshot.broker.object_name if self._snapshot.broker else ""
        row = self._queues.get((one.address, one.queue))
        found = {
            "broker": broker,
            "address": f"{broker},component=addresses,address={quote(one.address)}",
        }
        if row is not None:
            found["queue"] = _object_of(broker, row)
            dead = [
                queue
                for queue in self._queues.values()
                if queue.address == row.dead_letter_address
            ]
            if (
                len(dead) == 1
            ):  # else one of them may hold the dead letters of another client
                found["dead_letters"] = _object_of(broker, dead[0])
        return found if broker else {}

    @cached_property
    def _addresses(self) -> dict[str, int]:
        return {
            row.name: i
            for i, row in enumerate(
                self._snapshot.addresses.index if self._snapshot.addresses else ()
            )
        }

    @cached_property
    def _queues(self) -> dict[tuple[str, str], QueueRow]:
        return {
            (row.address, row.name): row
            for row in (self._snapshot.queues.index if self._snapshot.queues else ())
        }


def cannot_hang(one: ActiveCondition) -> bool:
    """Whether every cause by which the client could hang is excluded."""
    found = [verdict for name, verdict in one.verdicts.items() if name in HANGS]
    return bool(found) and all(
        verdict.state is CauseState.EXCLUDED for verdict in found
    )


def is_all_uncommitted(one: ActiveCondition) -> bool:
    """Whether all that the client has is acknowledged, and nothing buffered could fall."""
    return (
        one.evidence.get("uncommitted", 0.0) > 0
        and not one.evidence.get("held", 0.0) > 0
    )


def filled(
    action: ActionTemplate, names: Names, mbeans: Names
) -> Iterator[answers.Action]:
    """Nothing where it needs what is not known."""
    try:
        texts = (action.do, action.effect, action.check, action.never)
        do, effect, check, never = (text.format_map(names) for text in texts)
        commands = [
            action.command.format_map(
                {name: shlex.quote(text) for name, text in each.items()}
            )
            for each in _each(action.command, names)
            if action.command
        ]
        calls = [
            answers.ManagementCall(
                mbeans[call.on],
                call.operation,
                [text.format_map(each) for text in call.arguments],
            )
            for call in action.calls
            for each in _each(call.arguments, names)
        ]
    except KeyError:
        return
    methods = dict.fromkeys(call.operation.partition("(")[0] for call in action.calls)
    right = (
        f"a role that may call {', '.join(methods)}"
        if methods
        else "an administrator of imqcmd" * bool(commands)
    )
    yield answers.Action(action.name, do, effect, check, never, right, calls, commands)


def _each(arguments: str | tuple[str, ...], names: Names) -> Iterator[Names]:
    """Once; of prepared transactions once for each of the first."""
    if "{xid}" in arguments:
        yield from ({**names, "xid": xid} for xid in names["xid"].split()[:MOST_XIDS])
    else:
        yield names


def _object_of(broker: str, row: QueueRow) -> str:
    return queue_object(broker, row.address, row.routing_type.lower(), row.name)
