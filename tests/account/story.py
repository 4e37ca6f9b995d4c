"""What the account of a queue says after each poll of a story, in one line."""

from collections.abc import Callable, Mapping, Sequence

from account.world import Broker
from penstock.insight.account import account_list
from penstock.insight.answers import Amount
from penstock.insight.explain import BrokerView, NotFound

Act = Callable[[Broker], object]
Step = tuple[Act, str]
"""What happens, and what the account says then."""


def told(broker: Broker, name: str = "q") -> str:
    """All amounts of a queue that are not 0: what came, is there, left, was lost by whom and is in whose hands."""
    assert broker.last is not None
    view = BrokerView(broker.state, {}, broker.last, broker.policy, broker.step)
    try:
        sheets = account_list(view, name).rows
    except NotFound:
        return "no account"
    (sheet,) = [sheet for sheet in sheets if sheet.queue == name]
    parts: dict[str, Mapping[str, Amount]] = {
        "came": sheet.came,
        "there": sheet.there,
        "left": sheet.left,
        "lost by": sheet.lost_by,
        "in hand": sheet.delivering,
        "rest": {"unexplained": sheet.unexplained},
    }
    lines = [f"{part} {amounts(of)}" for part, of in parts.items() if any_amount(of)]
    return "; ".join(lines)


def any_amount(of: Mapping[str, Amount]) -> bool:
    return any(amount != 0 for amount in of.values())


def amounts(of: Mapping[str, Amount]) -> str:
    return ", ".join(f"{name} {text(one)}" for name, one in of.items() if one != 0)


def text(amount: Amount) -> str:
    """A number, its bounds, or `?` where nothing is known."""
    if amount is None:
        return "?"
    if isinstance(amount, int | float):
        return f"{amount:g}"
    low, high = amount
    return f"{text(low)}..{text(high)}"


def goes(story: Sequence[Step], broker: Broker, name: str = "q") -> list[str]:
    """What the account says after each step."""
    lines = []
    for act, _ in story:
        act(broker)
        lines.append(told(broker, name))
    return lines


def expected(story: Sequence[Step]) -> list[str]:
    return [line for _, line in story]
