"""Where messages went: the account of a window, by reason and by whom, the worst first.

A fate is what became of messages: acknowledged, expired, evicted, … A place is a queue, or an address whose messages no
queue got. `uncertain` is how many messages more there may have been; None: it is not known how many.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.account.fates import CAUSES, HANDLED, LOSSES
from penstock.insight.formatting import amount_text

Plain = dict[str, Any]
Place = tuple[str, str, str]
"""Broker, address, and queue, which is empty where no queue got the messages."""
Fate = tuple[str, str, str, str]
"""A place and the name of a fate."""


def place_of(row: Mapping[str, Any]) -> Place:
    """Returns the place that a row is about."""
    return (
        row["broker"],
        row["address"],
        row["queue"],
    )


def name_of(row: Mapping[str, Any]) -> Fate:
    """Returns the place and the fate that a row is about."""
    return *place_of(row), row["fate"]


def went(facts: Plain) -> list[Plain]:
    """Returns a row for each place and fate but acknowledgement: losses first, then by most messages."""
    fates: list[Plain] = facts.get("fates", [])
    clients = rows_of_clients(fates)
    added = {place_of(queue): queue["added"] for queue in facts["queues"]}
    rows = []
    for row in [*rows_of_accounts(fates), *rows_of_counters(facts["queues"], fates)]:
        if not row["messages"] and not row["uncertain"]:
            continue
        texts = {
            "lost": row["fate"] in LOSSES,
            "amount": amount_of(row),
            "who": who(row, clients.get(name_of(row), [])),
            "share": share_of_added(row, added.get(place_of(row))),
        }
        rows.append(row | texts)
    return sorted(rows, key=losses_first)


def rows_of_clients(fates: Sequence[Plain]) -> dict[Fate, list[Plain]]:
    """Returns the rows that name a client, by fate, each with most messages first."""
    rows_by_fate: dict[Fate, list[Plain]] = defaultdict(list)
    for row in sorted(fates, key=lambda row: -row["messages"]):
        is_empty = not row["messages"] and row["uncertain"] == 0
        if row["client"] and not is_empty:
            rows_by_fate[name_of(row)].append(row)
    return rows_by_fate


def rows_of_accounts(fates: Sequence[Plain]) -> list[Plain]:
    """Returns the rows that count all messages with a fate, whichever client they went to."""
    return [row for row in fates if not row["client"] and row["fate"] != HANDLED]


def rows_of_counters(queues: Sequence[Plain], fates: Sequence[Plain]) -> list[Plain]:
    """Returns rows made from the counters of queues, for brokers whose history has no account.

    Older agents wrote no account, and an import from Prometheus has none.
    """
    brokers_with_account = {row["broker"] for row in fates}
    rows = []
    for queue in queues:
        if queue["broker"] in brokers_with_account:
            continue
        rows += [row_of_counter(queue, fate) for fate in CAUSES if queue.get(fate)]
    return rows


def row_of_counter(queue: Plain, fate: str) -> Plain:
    """Returns the row for one counter of a queue: its number is exact."""
    return {
        "broker": queue["broker"],
        "address": queue["address"],
        "queue": queue["queue"],
        "owner": queue["owner"],
        "fate": fate,
        "messages": int(queue[fate]),
        "uncertain": 0,
    }


def share_of_added(row: Plain, added: float | None) -> float | None:
    """Returns the share of the queue's messages; None where it is unknown how many were added."""
    if not added:
        return None
    return float(row["messages"] / added)


def losses_first(row: Plain) -> tuple[Any, ...]:
    """Returns the key that sorts rows: losses, then most messages, then by name."""
    return (
        not row["lost"],
        -row["messages"],
        *name_of(row),
    )


def totals(rows: Sequence[Plain]) -> list[Plain]:
    """Returns the sums by fate over all queues and brokers, in the same order."""
    sums: dict[str, Plain] = {}
    for row in rows:
        empty = {"messages": 0, "uncertain": 0, "places": 0}
        total = sums.setdefault(row["fate"], row | empty)
        total["messages"] += row["messages"]
        total["places"] += 1
        if total["uncertain"] is None or row["uncertain"] is None:
            total["uncertain"] = None
        else:
            total["uncertain"] += row["uncertain"]
    for total in sums.values():
        total["amount"] = amount_of(total)
    return sorted(
        sums.values(),
        key=lambda total: (
            not total["lost"],
            -total["messages"],
            total["fate"],
        ),
    )


def amount_of(row: Mapping[str, Any]) -> str:
    """Returns the number of messages as text: exact, a range, or at least so many."""
    least = row["messages"]
    uncertain = row["uncertain"]
    if uncertain == 0:
        return amount_text(least)
    if uncertain is None:
        return amount_text((least, None))
    return amount_text((least, int(least + uncertain)))


def who(row: Plain, clients: Sequence[Plain]) -> str:
    """Returns a text: the known clients with their messages, then the usual cause of the fate.

    The cause is left out where the clients account for all messages.
    """
    texts = [f"{client['client']} {amount_of(client)}" for client in clients]
    without_client = row["messages"] - sum(client["messages"] for client in clients)
    cause = CAUSES.get(row["fate"], "")
    if cause and (without_client > 0 or not texts):
        texts.append(cause)
    return ", ".join(texts)
