"""What is told of a condition beside what is true: causes that are decided wrongly, and advice that does not fit."""

from collections.abc import Collection, Iterator

from penstock.actions.catalogue import ACTIONS
from penstock.agent import Poller
from penstock.assessment.assess import State
from penstock.causes.verdict import CauseState
from penstock.conditions.catalogue import on
from penstock.conditions.condition import ActiveCondition
from penstock.insight.actions import Actions
from penstock.model import Snapshot

BY_NAME = {action.name: action for action in ACTIONS}
COSTLY = frozenset(
    {
        "close_connection",
        "close_connection_of_others",
        "close_connection_of_mqtt",
        "close_consumer",
        "destroy_connection",
        "destroy_connection_in_transaction",
    }
)
"""They cost attempts, and bring nothing where the client would stop again at once."""

ARTEMIS = {
    "one-of-four-wedged": "listener_hangs",
    "all-wedged": "listener_hangs",
    "never-acknowledges-core": "never_acknowledges",
    "never-acknowledges-amqp": "never_acknowledges",
    "never-acknowledges-stomp": "never_acknowledges",
    "open-transaction-core": "never_commits acknowledges_one_by_one",
    "open-transaction-amqp": "never_commits",
    "open-transaction-hidden": "never_commits",
    "rollback-loop": "rolls_back",
    "release-loop": "releases",
    "poison-message": "rolls_back",
    "one-of-four-rolls-back": "rolls_back",
    "no-consumer": "application_down",
    "selector-matches-nothing": "selector",
    "no-credit": "no_credit",
    "not-started": "not_started never_receives",
    "prefetch-hoarding": "prefetch",
    "paused-queue": "paused",
    "paused-address": "paused",
    "undersized": "too_few_consumers",
    "depaging-frozen": "page_limit",
    "full-block": "address_full",
    "full-drop": "address_full",
    "full-fail": "address_full",
    "disk-full": "disk_full",
    "half-open-connection": "frozen connection_died",
    "reconnects-without-progress": "reconnects",
    "learned-one-of-six-wedged": "listener_hangs",
    "learned-never-acknowledges": "never_acknowledges",
    "learned-open-transaction": "never_commits",
    "ring-overflow": "ring_too_small",
    "ring-loss-by-close": "returned",
    "ring-loss-by-rollback": "returned",
    "ring-scheduled-loss": "ring_too_small",
    "ring-shrunk": "ring_too_small",
}
"""The true causes by scenario, of all conditions that it needs; not of a link, which is no condition."""
OPENMQ = {
    "stuck_listener": "listener_hangs",
    "one_stuck_of_three": "listener_hangs",
    "shared_member_stuck": "listener_hangs",
    "client_ack_never": "never_acknowledges",
    "open_transaction": "never_commits listener_hangs",
    "failed_transaction": "never_commits transaction_failed",
    "rollback_loop": "rolls_back",
    "connection_limit": "connection_limit listener_hangs",
    "hoarding": "prefetch",
    "frozen_process": "frozen",
    "never_receives": "never_receives",
    "not_started": "not_started",
    "selector_mismatch": "selector",
    "blocked_producers": "address_full",
    "remove_oldest": "limit",
    "reject_newest": "address_full",
    "no_consumer": "application_down",
    "paused_destination": "paused",
    "producer_uncommitted": "never_commits",
    "stomp_no_ack": "stomp_reader",
}


def wrong(
    poller: Poller, need: Collection[str], queues: Collection[str], causes: str
) -> Iterator[str]:
    """After a poll: of the conditions in `need` on these queues (or addresses), whose true causes are given."""
    assessor = poller.assessor
    for one in assessor.state.judgement.conditions:
        if (
            one.name in need
            and (one.queue in queues or one.address in queues)
            and assessor.view is not None
        ):
            yield from (
                f"{one.name}: {what}" for what in wrong_causes(one, causes.split())
            )
            said = wrong_actions(
                one, assessor.view.snapshot, assessor.state, causes.split()
            )
            yield from (f"{one.name}: {what}" for what in said)


def wrong_causes(one: ActiveCondition, true: Collection[str]) -> Iterator[str]:
    for name, verdict in one.verdicts.items():
        if verdict.state is CauseState.PROVEN and name not in true:
            yield f"{name} is proven and not true"
        if verdict.state is CauseState.EXCLUDED and name in true:
            yield f"{name} is true and excluded"


def wrong_actions(
    one: ActiveCondition, snapshot: Snapshot, state: State, true: Collection[str]
) -> Iterator[str]:
    """No true cause has a name; no action fits one; or one does harm, or nothing."""
    about = on(snapshot.broker.kind.name if snapshot.broker else "", one.name)
    known = about.causes.keys() & set(true)
    if not known:
        yield f"{', '.join(true)}: no cause of it"
    offered = {
        action.name: action for action in Actions(snapshot, state).of(one, about)
    }
    of_others = {
        name
        for name in offered
        if (of := BY_NAME[name].causes & about.causes.keys()) and not of & known
    }
    if not offered.keys() - of_others:
        yield f"no action fits: {', '.join(offered) or 'none is offered'}"
    if "blocked_in_send" in known and (
        proven := one.verdicts["blocked_in_send"].state is CauseState.PROVEN
    ):
        yield from (
            f"{name} is advised, and it would block again"
            for name in COSTLY & offered.keys()
            if proven
        )
    if (
        "add_consumers" in offered
        and not {"too_few_consumers", "ring_too_small"} & known
    ):
        yield "add_consumers would bring nothing"
    closes = {
        name
        for name, of in offered.items()
        if any(call.operation.startswith("closeConsumer") for call in of.calls)
    }
    consumers = [] if snapshot.consumers is None else list(snapshot.consumers.index)
    if closes and (
        protocols := {row.protocol for row in consumers if row.queue == one.queue}
        - {"AMQP"}
    ):
        yield f"{', '.join(closes)} of a consumer of {', '.join(sorted(protocols))}"
