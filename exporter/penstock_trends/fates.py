"""Where messages went: the account of a window, by reason and by whom, the worst first."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.account.fates import CAUSES, HANDLED, LOSSES
from penstock.insight.formatting import amount_text

Plain = dict[str, Any]
Fate = tuple[str, str, str, str]
"""Broker, address, queue (empty: none got it) and fate."""


def name_of(one: Mapping[str, Any]) -> Fate:
    return one["broker"], one["address"], one["queue"], one["fate"]


def of_clients(fates: Sequence[Plain]) -> dict[Fate, list[Plain]]:
    """Of each fate the rows that name a client, the worst first."""
    found: dict[Fate, list[Plain]] = defaultdict(list)
    for one in sorted(fates, key=lambda one: -one["messages"]):
        if one["client"] and (one["messages"] or one["uncertain"] != 0):
            found[name_of(one)].append(one)
    return found


def went(facts: Plain) -> list[Plain]:
    """A row for each fate but acknowledgement: losses first, most messages first.

    Of a broker whose history has no account (an older agent, an import) what the counters of its queues say.
    """
    fates: list[Plain] = facts.get("fates", [])
    clients = of_clients(fates)
    accounts = {one["broker"] for one in fates}
    rows = [one for one in fates if not one["client"] and one["fate"] != HANDLED]
    rows += [
        {name: queue[name] for name in ("broker", "address", "queue", "owner")}
        | {"fate": fate, "messages": int(queue[fate]), "uncertain": 0}
        for queue in facts["queues"]
        for fate in CAUSES
        if queue["broker"] not in accounts and queue.get(fate)
    ]
    came = {name_of({**queue, "fate": ""}): queue["added"] for queue in facts["queues"]}
    found = [
        one
        | {
            "lost": one["fate"] in LOSSES,
            "amount": amount_of(one),
            "who": who(one, clients.get(name_of(one), [])),
            "share": one["messages"] / whole
            if (whole := came.get(name_of({**one, "fate": ""})))
            else None,
        }
        for one in rows
        if one["messages"] or one["uncertain"]
    ]
    return sorted(
        found, key=lambda one: (not one["lost"], -one["messages"], *name_of(one))
    )


def totals(rows: Sequence[Plain]) -> list[Plain]:
    """By fate over all queues and brokers, in the same order."""
    found: dict[str, Plain] = {}
    for one in rows:
        total = found.setdefault(
            one["fate"], one | {"messages": 0, "uncertain": 0, "places": 0}
        )
        total["messages"], total["places"] = (
            total["messages"] + one["messages"],
            total["places"] + 1,
        )
        known = None not in (total["uncertain"], one["uncertain"])
        total["uncertain"] = total["uncertain"] + one["uncertain"] if known else None
    summed = [one | {"amount": amount_of(one)} for one in found.values()]
    return sorted(
        summed, key=lambda one: (not one["lost"], -one["messages"], one["fate"])
    )


def amount_of(one: Mapping[str, Any]) -> str:
    low = one["messages"]
    uncertain = one["uncertain"]
    return amount_text(
        low
        if uncertain == 0
        else (low, None if uncertain is None else int(low + uncertain))
    )


def who(one: Plain, clients: Sequence[Plain]) -> str:
    """The clients that are known, then what else gives messages this fate."""
    named = [f"{client['client']} {amount_of(client)}" for client in clients]
    rest = one["messages"] - sum(client["messages"] for client in clients)
    cause = CAUSES.get(one["fate"], "")
    return ", ".join([*named, cause] if cause and (rest > 0 or not named) else named)
