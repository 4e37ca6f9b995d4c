"""The tables of an assessment against a plain reference, poll by poll."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import things
from core.things import Source, by, patiently, snapshot
from penstock.assessment.assess import State, Tables, assess
from penstock.core.counters import SMALL_FALL
from penstock.core.table import Table
from penstock.model import (
    AddressRow,
    ConnectionRow,
    ConsumerRow,
    LinkRow,
    ProducerRow,
    QueueKind,
    QueueRow,
    Snapshot,
)
from penstock.series.labels import NON_DURABLE, TEMPORARY
from penstock.settings.policy import Limits, Policy
from penstock.settings.rules import Match, Rule, Rules, RuleSettings, Selection

QUEUES = (
    things.queue("orders"),
    things.queue("orders", ring_source="queue"),
    things.queue("bills"),
    things.queue("lost", "lost", kind=QueueKind.DEAD_LETTER),
    things.subscription("s1", "events", durable=True),
    things.subscription("s2", "events", durable=False),
    things.subscription("s3", "events", durable=False),
    things.temporary("t1"),
    things.temporary("t2"),
)
ADDRESSES = ("orders", "bills", "lost", "events", "t1", "t2", "alone", "alone.too")
CLIENTS = ("c1", "c2")


@dataclass(frozen=True)
class Wish:
    """What the operator wants; `policy` says it in rules."""

    ignored: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    sum_temporary: bool = True

    @property
    def policy(self) -> Policy:
        return Policy(
            "b",
            Rules(
                tuple(
                    Rule(Match(queue=name), RuleSettings(ignore=True))
                    for name in sorted(self.ignored)
                )
            ),
            Selection(exclude=[Match(queue=name) for name in sorted(self.excluded)]),
            Limits(100, 100, 100),
            sum_temporary=self.sum_temporary,
        )

    def hides(self, queue: str) -> bool:
        return queue in self.ignored | self.excluded

    def queue(self, row: QueueRow) -> tuple[str, str] | None:
        """Address and queue as they are shown."""
        if self.hides(row.name):
            return None
        if self.sum_temporary and row.temporary:
            return TEMPORARY, TEMPORARY
        if (
            self.sum_temporary
            and row.kind is QueueKind.SUBSCRIPTION
            and not row.durable
        ):
            return row.address, NON_DURABLE
        return row.address, row.name


@dataclass
class Poll:
    """One poll of everything; each kind of thing by key, with a number of each for every column."""

    wish: Wish | None
    """A new one: the configuration was read anew."""
    restart: bool
    queues: dict[int, tuple[QueueRow, dict[str, float]]] | None
    missing: set[str]
    """Columns of the queues that the broker did not give this time."""
    addresses: dict[int, tuple[AddressRow, float]] | None
    consumers: dict[int, tuple[str, int, float]]
    """Client, queue, and what it holds."""
    producers: dict[int, tuple[ProducerRow, float]]
    connections: dict[int, tuple[ConnectionRow, float]]
    links: list[tuple[LinkRow, float]]


GAUGES = ("messages", "delivering", "scheduled", "consumers", "paused")
COUNTERS = ("added", "acknowledged")
numbers = st.one_of(st.integers(0, 50).map(float), st.just(np.nan))
wishes = st.builds(
    Wish, st.frozensets(st.sampled_from([q.name for q in QUEUES]), max_size=2),
    st.frozensets(st.sampled_from([q.name for q in QUEUES]), max_size=2), st.booleans(),
)  # fmt: skip
keys = st.integers(0, 6)


def things_by_key(
    rows: st.SearchStrategy[Any], unique: Callable[[Any], Any]
) -> st.SearchStrategy[dict[int, Any]]:
    """Listed in any order; names are unique on a broker."""
    pairs = st.lists(
        st.tuples(keys, rows),
        max_size=6,
        unique_by=(lambda p: p[0], lambda p: unique(p[1])),
    )
    return pairs.map(dict)


queue_tables = things_by_key(
    st.tuples(
        st.sampled_from(QUEUES),
        st.fixed_dictionaries(dict.fromkeys((*GAUGES, *COUNTERS), numbers)),
    ),
    lambda row: row[0].name,
)
address_tables = things_by_key(
    st.tuples(
        st.builds(
            things.address,
            st.sampled_from(ADDRESSES),
            st.sampled_from(["page", "drop"]),
        ),
        numbers,
    ),
    lambda row: row[0].name,
)
polls = st.lists(
    st.builds(
        Poll,
        st.one_of(st.none(), st.none(), wishes),
        st.booleans(),
        st.one_of(queue_tables, queue_tables, st.none()),
        st.sets(st.sampled_from((*GAUGES, *COUNTERS)), max_size=2),
        st.one_of(address_tables, address_tables, st.none()),
        things_by_key(st.tuples(st.sampled_from(CLIENTS), keys, numbers), lambda _: object()),
        things_by_key(
            st.tuples(st.builds(things.producer, st.just("p"), st.sampled_from(ADDRESSES), st.sampled_from(CLIENTS)),
                      numbers), lambda _: object(),
        ),
        things_by_key(st.tuples(st.builds(things.connection, st.sampled_from("abcde")), numbers), lambda r: r[0].id),
        st.lists(st.tuples(st.builds(things.link, st.sampled_from("abc")), numbers), unique_by=lambda row: row[0]),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@dataclass
class Reader:
    """Tables on indexes that are followed from poll to poll, until the broker restarts."""

    queues: Source[QueueRow] = field(default_factory=Source)
    addresses: Source[AddressRow] = field(default_factory=Source)
    consumers: Source[ConsumerRow] = field(default_factory=Source)
    producers: Source[ProducerRow] = field(default_factory=Source)
    connections: Source[ConnectionRow] = field(default_factory=Source)
    stamp: float = 1000.0

    def read(self, poll: Poll, consumers: Mapping[int, ConsumerRow]) -> Snapshot:
        read: dict[str, Any] = {}
        if poll.queues is not None:
            read["queues"] = self.queues.table(
                {key: row for key, (row, _) in poll.queues.items()},
                **{
                    name: {
                        key: values[name] for key, (_, values) in poll.queues.items()
                    }
                    for name in (*GAUGES, *COUNTERS)
                    if name not in poll.missing
                },
            )
        if poll.addresses is not None:
            read["addresses"] = self.addresses.table(
                {key: row for key, (row, _) in poll.addresses.items()},
                pages={key: value for key, (_, value) in poll.addresses.items()},
                paging={key: value > 9 for key, (_, value) in poll.addresses.items()},
            )
        held = {key: value for key, (_, _, value) in poll.consumers.items()}
        read["consumers"] = self.consumers.table(
            consumers, buffered=held, delivered=held
        )
        read["producers"] = self.producers.table(
            {key: row for key, (row, _) in poll.producers.items()},
            produced={key: value for key, (_, value) in poll.producers.items()},
        )
        read["connections"] = self.connections.table(
            {key: row for key, (row, _) in poll.connections.items()},
            sessions={key: value for key, (_, value) in poll.connections.items()},
        )
        links = sorted(poll.links, key=lambda found: found[1])
        read["links"] = things.table(
            [row for row, _ in links], up=[value for _, value in links]
        )
        return snapshot(
            self.stamp,
            consumer_queue=[poll.consumers[key][1] for key in sorted(poll.consumers)],
            **read,
        )


class Ledger:
    """
    Counters of things that come and go: what each added, by the labels it had then.

    A thing is known by its key for as long as one process of the broker answers, however its text changes: a temporary
    queue learns its dead-letter address when it has counted for a while. Of another process it is only with its text.
    One that a listing lacked goes on from what it said last.

    may_be_torn: its counters change while they are read. One that falls by a few messages, and not to 0, has not begun
    again: it counts on where it has passed what it said before.
    """

    def __init__(self, *, may_be_torn: bool = False) -> None:
        self.may_be_torn = may_be_torn
        self.totals: dict[Any, float] = {}
        self.restarted = False
        """Another process answers since things were counted last."""
        self._last: dict[Any, float] = {}
        self._texts: dict[Any, Any] = {}

    def count(self, said: Mapping[tuple[int, Any], tuple[Any, float]]) -> None:
        """`said`: key and text of a thing → its labels (None: hidden) and its counter."""
        if self.restarted:
            self._last = {
                key: value
                for key, value in self._last.items()
                if (key, self._texts.get(key)) in said
            }
        self.restarted = False
        self._texts = dict(said.keys())
        last = {**self._last, **{key: self._last.get(key, 0.0) for key, _ in said}}
        for (thing, _), (labels, value) in said.items():
            if labels is not None:
                self.totals.setdefault(labels, 0.0)
            if np.isnan(value) or self._is_torn(last[thing], value):
                continue
            if labels is not None:
                self.totals[labels] += (
                    value - last[thing] if value >= last[thing] else value
                )
            last[thing] = value
        self._last = last

    def _is_torn(self, before: float, now: float) -> bool:
        return self.may_be_torn and now > 0 and 0 < before - now <= SMALL_FALL


def summed(pairs: list[tuple[Any, float]]) -> dict[Any, float]:
    """Sums by label; hidden things and missing values left out, and what is missing for all."""
    sums: dict[Any, float] = {}
    for labels, value in pairs:
        if labels is not None and not np.isnan(value):
            sums[labels] = sums.get(labels, 0.0) + value
    return sums


class Reference:
    """What must be shown, from what was polled."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueRow] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}
        """Name → as what it is shown; nothing: hidden."""
        self.ledgers: dict[str, Ledger] = {
            name: Ledger() for name in (*COUNTERS, "produced")
        }
        self.ledgers["delivered"] = Ledger(may_be_torn=True)

    def check(
        self,
        poll: Poll,
        wish: Wish,
        consumers: Mapping[int, ConsumerRow],
        tables: Tables,
    ) -> None:
        if poll.queues is not None:
            self.queues = {key: row for key, (row, _) in poll.queues.items()}
            self.check_queues(poll, poll.queues, wish, tables["queue"])
        if poll.addresses is not None:
            self.check_addresses(poll.addresses, wish, tables["address"])
        self.check_clients(poll, wish, consumers, tables)
        self.check_producers(poll, tables["producer"])
        assert by(tables["connection"], "sessions", "connection") == summed(
            [(row.id, value) for row, value in poll.connections.values()]
        )
        assert by(tables["connection"], "info", "connection") == {
            r.id: 1.0 for r, _ in poll.connections.values()
        }
        assert by(tables["link"], "up", "link") == summed(
            [(row.name, value) for row, value in poll.links]
        )

    def check_queues(
        self,
        poll: Poll,
        queues: dict[int, tuple[QueueRow, dict[str, float]]],
        wish: Wish,
        table: Table[Any],
    ) -> None:
        labels = ("address", "queue", "ring_source")

        def shown(row: QueueRow) -> tuple[str, ...] | None:
            names = wish.queue(row)
            return names and (*names, str(row.ring_source))

        assert sorted(by(table, "info", *labels)) == sorted(
            {s for row, _ in queues.values() if (s := shown(row))}
        )
        for name in GAUGES:
            given = [(shown(row), values[name]) for row, values in queues.values()]
            if name in poll.missing:
                assert name not in table
            elif name == "paused":
                largest = {
                    s: max(v for t, v in given if t == s and not np.isnan(v))
                    for s in summed(given)
                }
                assert by(table, name, *labels) == largest
            else:
                assert by(table, name, *labels) == summed(given)
        for name in COUNTERS:
            ledger = self.ledgers[name]
            missing = name in poll.missing
            ledger.count(
                {
                    (k, r): (shown(r), np.nan if missing else v[name])
                    for k, (r, v) in queues.items()
                }
            )
            if not missing:
                expected = summed([(shown(r), v[name]) for r, v in queues.values()])
                sums = {
                    s
                    for r, _ in queues.values()
                    if (s := shown(r)) and s[1] in (TEMPORARY, NON_DURABLE)
                }
                # A sum of which nobody has said anything yet is missing, not 0.
                told = {
                    s: total
                    for s in sums
                    if (total := ledger.totals[s]) or s in expected
                }
                assert by(table, name, *labels) == expected | told

    def check_addresses(
        self,
        addresses: dict[int, tuple[AddressRow, float]],
        wish: Wish,
        table: Table[Any],
    ) -> None:
        def shown(name: str) -> tuple[str, ...]:
            queues = [row for row in self.queues.values() if row.address == name]
            named = [names[0] for row in queues if (names := wish.queue(row))]
            return (named[0],) if named else () if queues else (name,)

        self.addresses = {row.name: shown(row.name) for row, _ in addresses.values()}
        given = [
            ((self.addresses[row.name] or (None,))[0], value)
            for row, value in addresses.values()
        ]
        assert by(table, "pages", "address") == summed(given)
        assert by(table, "paging", "address") == {
            name: float(any(v > 9 for n, v in given if n == name))
            for name, _ in given
            if name is not None
        }

    def check_clients(
        self,
        poll: Poll,
        wish: Wish,
        consumers: Mapping[int, ConsumerRow],
        tables: Tables,
    ) -> None:
        def shown(key: int) -> tuple[str, str, str] | None:
            row = consumers[key]
            queue = self.queues.get(poll.consumers[key][1])
            if queue is None:
                return (
                    None
                    if wish.hides(row.queue)
                    else (row.address, row.queue, row.client)
                )
            names = wish.queue(queue)
            if names is None or row.queue in wish.ignored:
                return None
            return (*names, row.client)

        labels = {key: shown(key) for key in consumers}
        held = {key: poll.consumers[key][2] for key in consumers}
        names = ("address", "queue", "client")
        assert by(tables["client"], "buffered", *names) == summed(
            [(labels[key], held[key]) for key in consumers]
        )
        assert by(tables["client"], "consumers", *names) == summed(
            [(labels[key], 1.0) for key in consumers]
        )
        ledger = self.ledgers["delivered"]
        ledger.count(
            {(key, consumers[key]): (labels[key], held[key]) for key in consumers}
        )
        assert by(tables["client"], "delivered", *names) == {
            s: ledger.totals[s] for s in labels.values() if s
        }
        assert by(tables["consumer"], "buffered", *names, "consumer") == {
            (*s, str(key)): held[key]
            for key, s in labels.items()
            if s and not np.isnan(held[key])
        }

    def check_producers(self, poll: Poll, table: Table[Any]) -> None:
        def shown(row: ProducerRow) -> tuple[str, str] | None:
            name = self.addresses.get(row.address, (row.address,))
            return (name[0], row.client) if name else None

        labels = {
            (key, row): (shown(row), value)
            for key, (row, value) in poll.producers.items()
        }
        ledger = self.ledgers["produced"]
        ledger.count(labels)
        assert by(table, "produced", "address", "client") == {
            s: ledger.totals[s] for s, _ in labels.values() if s
        }


@pytest.mark.slow  # a recording, checked value by value
@given(polls)
@patiently
def test_every_series_has_the_value_of_its_own_things_after_every_poll(
    polls: list[Poll],
) -> None:
    state = State()
    reader = Reader()
    reference = Reference()
    wish = Wish()
    for poll in polls:
        reader.stamp += 15
        if poll.restart:
            reader = Reader(stamp=reader.stamp)
            for ledger in reference.ledgers.values():
                ledger.restarted = True
        if poll.wish is not None:
            state = state.with_new_labels()
            wish = poll.wish
            reference.queues = {}
            reference.addresses = {}
        known = (
            reference.queues
            if poll.queues is None
            else {key: row for key, (row, _) in poll.queues.items()}
        )
        consumers = {}
        for key, (client, queue, _) in poll.consumers.items():
            of: QueueRow = known.get(queue) or things.queue("elsewhere")
            consumers[key] = things.consumer(str(key), of.name, client, of.address)
        state, tables = assess(state, reader.read(poll, consumers), wish.policy)
        reference.check(poll, wish, consumers, tables)
