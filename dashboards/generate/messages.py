"""Where messages went: what came, what is there, and what left for which reason."""

from dashboards.generate.common import (
    BY_QUEUE,
    QUEUE,
    QUEUE_LINK,
    queue_line,
    settled,
    where_they_are,
)
from dashboards.generate.frame import Dashboard
from dashboards.generate.panels import (
    CRITICAL,
    OK,
    WARNING,
    Column,
    Query,
    Row,
    Scope,
    Step,
    above,
    apart,
    graph,
    largest,
    stat,
    table,
    total,
)

from penstock.account.fates import CAUSES, LOSSES

S = Scope(QUEUE)
ALL = Scope(QUEUE, optional=("queue",))
"""What no queue of an address got has no queue."""
FATE = (*QUEUE, "fate")
RING = "evicted"
"""What a ring drops for a newer message: no alarm by itself."""
BY_FATE = ", ".join(FATE)
_LOST = f'fate=~"{"|".join(LOSSES)}"'
_BY_RINGS = f'fate="{RING}"'
_NOT_BY_RINGS = f'fate=~"{"|".join(fate for fate in LOSSES if fate != RING)}"'
_OTHER = f'fate=~"{"|".join(CAUSES)}"'
_TOP = 50
_ADDED = S("mq_queue_messages_added_total")
_GIVEN_BACK = S("mq_queue_messages_lost_by_consumer_total")
_NONE_SEEN = "None seen"
_EXPLAINED = "All messages are explained"


def in_range(by: str, counter: str) -> str:
    """
    Increase of a counter of the account over the range shown; of one that has its first value within it from 0, which
    `increase` does not see: the account began there, or this fate came for the first time.

    Not where any agent had one before: a new pod goes on with what the old one counted.
    """
    began = f"{counter} unless on ({apart(by)}) {counter} offset $__range"
    return largest(by, f"({began}) or increase({counter}[$__range])")


def of(*matchers: str) -> str:
    return ALL("mq_account_messages_total", *matchers)


_NOW = Row(
    "In the time shown",
    (
        stat(
            "Came",
            "Messages that were added to the queues chosen.",
            total(f"increase({_ADDED}[$__range])"),
        ),
        stat(
            "There now",
            "Messages in the queues: ready, scheduled, and delivered to consumers that have not acknowledged them.",
            total(S("mq_queue_messages")),
        ),
        stat(
            "Dropped by rings",
            "Messages that full rings dropped for newer ones, at least so many: what rings are for. What clients gave"
            " back and a ring had no room for is among the losses, too.",
            f"sum({in_range(BY_FATE, of(_BY_RINGS))})",
            empty=_NONE_SEEN,
        ),
        stat(
            "Lost otherwise",
            "Messages that are gone for another reason, or that clients gave back to a full ring, at least so many. The"
            " table of losses says which reason, `penstock account BROKER QUEUE` the arithmetic and by whom.",
            f"sum({in_range(BY_FATE, of(_NOT_BY_RINGS))} or {largest(BY_QUEUE, f'increase({_GIVEN_BACK}[$__range])')})",
            empty=_NONE_SEEN,
            steps=(Step(None, OK), Step(1, CRITICAL)),
        ),
        stat(
            "May be more",
            "By how much the losses may be above what is shown, where the broker's counters leave it open. Most of it"
            " goes when traffic rests for two polls.",
            f"sum({largest(BY_FATE, ALL('mq_account_uncertain_messages', _LOST))})",
            steps=above(1),
        ),
        stat(
            "Unexplained",
            "Messages that no reason explains at three polls in a row. On a healthy queue nothing is shown; else"
            " compare `penstock account` with the broker's log.",
            total(S("mq_account_unexplained_messages")),
            steps=above(1),
            empty=_EXPLAINED,
        ),
    ),
)

_LOSSES = Row(
    "Losses",
    (
        table(
            "Lost in the time shown",
            "Queues and addresses that lost most messages, by reason; a row without a queue is of messages that no"
            " queue of the address got. At least so many; the second column is by how much it may be above.",
            FATE,
            Column(
                "Lost",
                f"topk({_TOP}, {in_range(BY_FATE, of(_LOST))} > 0)",
                steps=(Step(None, WARNING),),
            ),
            Column(
                "May be more",
                largest(BY_FATE, ALL("mq_account_uncertain_messages", _LOST)),
            ),
            links={"queue": QUEUE_LINK},
        ),
        graph(
            "In doubt by queue",
            "Messages that prepared transactions (XA) have taken and not decided: no client gets them until then."
            " Seconds are usual, minutes are not.",
            queue_line(S, "mq_queue_in_doubt_messages"),
            unit="locale",
            empty="Nothing is in doubt",
            width=12,
            height=5,
        ),
        graph(
            "Unexplained by queue",
            "What no reason explains at three polls in a row, by queue. It should not be there: restarts and resets of"
            " counters by an operator are known.",
            queue_line(S, "mq_account_unexplained_messages"),
            unit="locale",
            empty=_EXPLAINED,
            width=12,
            height=5,
        ),
    ),
)

_BALANCE = Row(
    "Came, there, left",
    (
        graph(
            "Came and acknowledged",
            "Messages a second into the queues, and out of them by consumers. What lies between the lines stays, or"
            " left for another reason.",
            Query(total(f"rate({_ADDED}[$__rate_interval])"), "came"),
            Query(" or ".join(map(total, settled(S))), "acknowledged"),
            unit="mps",
            width=12,
        ),
        graph(
            "Left other than acknowledged, by fate",
            "Messages a second by what became of them. A first message of a fate shows in the tables only: a rate needs"
            " two points.",
            Query(total(f"rate({of(_OTHER)}[$__rate_interval])", "fate"), "{{fate}}"),
            unit="mps",
            decimals=2,
            width=12,
        ),
        table(
            "All fates in the time shown",
            "What became of messages, over all that is chosen: what consumers acknowledged, and every other reason.",
            ("fate",),
            Column("Messages", f"sum by (fate) ({in_range(BY_FATE, of())})"),
            width=8,
            height=8,
        ),
        graph(
            "There",
            "Messages in the queues: ready for a consumer, delivered and not acknowledged, or scheduled for later.",
            *where_they_are(S),
            unit="locale",
            stacked=True,
        ),
        graph(
            "May be more, by fate",
            "How many messages more may have had this fate: the counters of an address and of its queues are read one"
            " after the other, and a transaction that stays open looks like a loss until it ends.",
            Query(
                f"sum by (fate) ({largest(BY_FATE, ALL('mq_account_uncertain_messages'))})",
                "{{fate}}",
            ),
            unit="locale",
        ),
    ),
)

MESSAGES = Dashboard(
    "penstock-messages",
    "Penstock / Where messages went",
    "What came to each queue and address, what is there, and what left for which reason.",
    QUEUE,
    (_NOW, _LOSSES, _BALANCE),
    single=("broker",),
)
