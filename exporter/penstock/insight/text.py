"""What `explain` and the log of events say, as lines for a terminal."""

from collections.abc import Iterator, Sequence

from penstock.account.fates import HANDLED, LOSSES, UNCOMMITTED
from penstock.causes.verdict import CauseState
from penstock.core.formatting import duration, number_text
from penstock.incidents.incident import Incident
from penstock.insight import answers
from penstock.insight.answers import AccountList, AccountSheet
from penstock.insight.events import Change, Event
from penstock.insight.formatting import UNKNOWN, age, amount_text, formatted, moment, name_text

NOTICE = {"info": "notice"}
"""What a severity is called, where it is not by its name."""


def explanation(found: answers.Explanation) -> Iterator[str]:
    address = f" of address {found.address}" if found.address != found.queue else ""
    yield f"{found.broker} / {found.queue}{address}   {found.kind}, {found.routing_type}"
    yield ""
    yield from knowledge_lines(found.knowledge)
    yield ""
    yield from incident_lines(found.incidents, found.stamp)
    for condition in found.conditions:
        yield from condition_lines(condition, found.stamp)
    yield from number_lines(found)
    yield from ring_lines(found.ring)
    for sheet in found.account:
        yield from balance_lines(sheet)
    yield from related_lines(found.related)
    flow = [f"  {one.client}, consumer {one.consumer}: {one.told}" for one in found.flow]
    flow += [f"  {one.client}, connection {one.connection}: {one.told}" for one in found.connections]
    yield from titled("Flow control", flow)
    for client in found.clients:
        yield from client_lines(client, found.stamp)
    if found.clients_left_out:
        yield f"  and {found.clients_left_out} more clients"
    yield from titled("Findings", [line for one in found.findings for line in finding_lines(one)])
    yield from titled("Rules of the configuration", [f"  {rule_line(rule)}" for rule in found.rules])
    yield from titled("Not known", [f"  {one.what}: {one.why}" for one in found.unknown])


def object_lines(found: answers.ObjectView) -> Iterator[str]:
    """All about an object that is no queue, line by line."""
    yield found.name if found.name == found.broker else f"{found.broker or 'all brokers'} / {found.kind} {found.name}"
    yield ""
    yield from knowledge_lines(found.knowledge)
    yield ""
    yield from incident_lines(found.incidents, found.stamp)
    told = {key for one in found.incidents for key in one.members} if found.kind == "broker" else set()
    alone = [one for one in found.conditions if (one.condition, one.address, one.queue, one.client) not in told]
    if belong := len(found.conditions) - len(alone):
        yield from (f"{belong} conditions belong to these incidents: `penstock explain {found.broker} QUEUE`", "")
    for condition in alone:
        where = "" if found.name == condition.queue else f"{condition.queue}: "
        yield from condition_lines(condition, found.stamp, where)
    facts = {name_text(one.name): str(one) for one in found.facts if one.value is not None}
    width = max(map(len, facts), default=0)
    yield from (f"  {name:{width}}  {text}" for name, text in facts.items())
    yield from related_lines(found.related)
    for sheet in found.account:
        yield from balance_lines(sheet)


def titled(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Nothing where there is no line."""
    if lines:
        yield title
    yield from lines


def related_lines(related: Sequence[answers.Related]) -> Iterator[str]:
    told = ((one, f": {one.told}" if one.told else "") for one in related)
    yield from titled("Related", [f"  {one.role} {one.kind} {one.name}{text}" for one, text in told])


def knowledge_lines(known: answers.Knowledge) -> Iterator[str]:
    """First of all what is sure."""
    since = "" if known.since is None else f" since {moment(known.since)}"
    if known.state == "stale":
        yield f"{known.why[:1].upper()}{known.why[1:]}."
        yield "What follows is what was last seen."
    else:
        yield f"{known.state.upper()}{since}: {known.why}."
    for one in known.watched:
        client = f" of client {one.client}" if one.client else ""
        seconds = f"{duration(one.seconds)} of the {duration(one.needed)} that it takes"
        yield f"  watching  {one.condition}{client}: {seconds}; {one.proves}"


def incident_lines(found: Sequence[Incident], now: float) -> Iterator[str]:
    """Of each: impact, who, cause, what to do, what changed."""
    for one in found:
        yield f"{one.severity.upper()}  {one.title}"
        yield f"  incident  {one.id}, since {moment(one.begin)}, {duration(now - one.begin)}"
        yield f"  impact    {impact(one)}"
        yield from (f"  who       {', '.join(who.values())}" for who in one.who)
        yield from (f"  cause     {cause}" for cause in one.causes if cause.state is not CauseState.EXCLUDED)
        yield from (f"  do        {number}. {advice}" for number, advice in enumerate(one.advice, 1))
        yield from (f"  changed   {moment(at, '%H:%M:%S')} {what}" for at, what in one.changed)
        yield ""


def impact(one: Incident) -> str:
    """What waits, how it grows, and what comes of it."""
    rate = f", {'+' * (one.rate > 0)}{number_text(one.rate)}/s" if one.rate else ""
    oldest = "" if one.oldest is None else f", the oldest for at least {duration(one.oldest)}"
    more = f" and {one.victim_count - len(one.victims)} more" if one.victim_count > len(one.victims) else ""
    victims = [f"Victims: {', '.join(one.victims)}{more}."] if one.victims else []
    return " ".join([f"{one.messages:,.0f} messages{rate}{oldest}.", *one.impact, *victims])


def condition_lines(condition: answers.Condition, now: float, where: str = "") -> Iterator[str]:
    on = f" on client {condition.client}" if condition.client else ""
    silenced = ", silenced by a rule" if condition.silenced else ""
    yield f"{NOTICE.get(condition.severity, condition.severity).upper()}  {where}{condition.condition}{on}{silenced}"
    yield f"  since     {moment(condition.since)}, {duration(now - condition.since)}"
    yield f"  rule      {condition.rule}"
    evidence = [f"{name_text(name)} {one}" for name, one in condition.evidence.items()]
    rests = condition.completeness
    share = "" if rests.share is None else f" ({rests.share:.0%})"
    evidence.append(f"{rests.polls} of {rests.due} polls{share}")
    yield f"  evidence  {', '.join(evidence)}"
    yield f"  causes    {condition.causes[0] if len(condition.causes) == 1 else 'one of:'}"
    if len(condition.causes) > 1:
        yield from (f"            - {cause}" for cause in condition.causes)
    yield f"  advice    {condition.advice}"
    for number, action in enumerate(condition.actions, 1):
        yield from action_lines(number, action)
    yield ""


def action_lines(number: int, action: answers.Action) -> Iterator[str]:
    yield f"  {'do' if number == 1 else '  '} {number:2}.    {action.do}."
    parts = {
        "call": [str(call) for call in action.calls],
        "command": action.commands,
        "effect": [action.effect],
        "needs": [action.right] if action.right else [],
        "check": [action.check],
        "do not": [action.never] if action.never else [],
    }
    yield from (f"            {name:7}  {text}" for name, texts in parts.items() for text in texts)


def number_lines(found: answers.Explanation) -> Iterator[str]:
    yield "Numbers"
    numbers = dict(found.numbers)
    oldest = (numbers.pop(name, None) for name in ("oldest_message", "oldest_earliest", "oldest_latest"))
    if not numbers.get("ready"):
        numbers.pop("drain", None)  # nothing drains
    shown = {name_text(name): formatted(name, value) for name, value in numbers.items()}
    shown |= {"age of the oldest message": text} if (text := age(found.stamp, *oldest)) else {}
    rates = {"in": found.rate_in, "out": found.rate_out}
    shown |= {name: f"{number_text(rate)}/s" for name, rate in rates.items() if rate is not None}
    yield "  " + ", ".join(f"{name} {text}" for name, text in shown.items())
    yield f"  normal at this hour: {found.usual}"


def ring_lines(ring: answers.Ring | None) -> Iterator[str]:
    if ring is None:
        return
    yield "Ring"
    limit = "none" if ring.limit is None else f"{number_text(ring.limit)} messages"
    yield f"  size      {limit}: {ring.where}"
    yield f"  evicted   {UNKNOWN if ring.evicted is None else number_text(ring.evicted)}: {ring.ledger}"


def balance_lines(sheet: answers.AccountSheet) -> Iterator[str]:
    """The arithmetic, and what consumers did not acknowledge by reason; of an address only where there is such."""
    gone = {name: value for name, value in sheet.left.items() if value != 0 and name not in {HANDLED, UNCOMMITTED}}
    if not sheet.queue and all(value is None for value in gone.values()):
        return
    yield "Account" if sheet.queue else f"Account of address {sheet.address}, before its queues"
    yield f"  {sheet.sums}"
    for name, value in gone.items():
        lost = ", lost" if name in LOSSES and value is not None else ""
        reason = f": {sheet.reasons[name]}" if name in sheet.reasons else ""
        yield f"  {name.replace('_', ' ')}{lost}  {amount_text(value)}{reason}"
    for name, value in sheet.lost_by.items():
        if value != 0:
            yield f"    by {name}  {amount_text(value)}"


def client_lines(client: answers.QueueClient, now: float) -> Iterator[str]:
    yield f"Client {client.client}"
    numbers = dict(client.numbers)
    since = numbers.pop("blocked_since", None)
    text = ", ".join(f"{name_text(name)} {formatted(name, value)}" for name, value in numbers.items())
    yield f"  {text}" + (f", no acknowledgements for {duration(now - since)}" if since is not None else "")
    patience = client.patience
    if patience is not None:
        origin = f"learned from {patience.gaps} gaps" if patience.origin == "learned" else patience.origin
        yield f"  stall threshold  {duration(patience.seconds)}, {origin}: {patience.why}"
    yield from (f"  {rule_line(rule)}" for rule in client.rules)


def finding_lines(finding: answers.Finding) -> Iterator[str]:
    yield f"  {finding.rule} ({finding.scope} {finding.object}): {finding.says}"
    if finding.evidence:
        yield f"    evidence  {', '.join(f'{name} {one}' for name, one in finding.evidence.items())}"
    yield f"    advice    {finding.advice}"


def rule_line(rule: answers.AppliedRule) -> str:
    return f"{rule.key}: {rule.value} (rule {rule.rule})"


def event_line(event: Event) -> str:
    """One line: when, what, on what."""
    at = moment(event.time, "%Y-%m-%d %H:%M:%S")
    where = " / ".join(name for name in (event.broker, event.queue, event.client) if name)
    if event.condition:
        what = {Change.CONDITION_ON: "raised", Change.CONDITION_OFF: "cleared"}.get(event.change, event.detail)
        since = ""
        if event.change is Change.CONDITION_ON and event.since is not None:
            since = f", since {moment(event.since, '%H:%M:%S')}"
        return f"{at}  {NOTICE.get(event.severity, event.severity):8}  {what:7}  {event.condition}  {where}{since}"
    return "  ".join(part for part in (at, event.change.replace("_", " "), where, event.detail) if part)


def account_lines(found: AccountList) -> Iterator[str]:
    if not found.rows:
        yield f"{found.broker}: no message was lost in the time that the account covers."
    for sheet in found.rows:
        yield from sheet_lines(sheet)
        yield ""
    if found.total > len(found.rows):
        yield f"and {found.total - len(found.rows)} more; give an address or a queue"


def sheet_lines(sheet: AccountSheet) -> Iterator[str]:
    kind = "queue" if sheet.queue else "client" if sheet.client else "address, before its queues"
    yield f"{sheet.broker} / {sheet.queue or sheet.client or sheet.address}   {kind}"
    parts = {
        "Sent to": sheet.sent,
        "Received": sheet.came,
        "Still there": sheet.there,
        "In delivery": sheet.delivering,
        "Buffered by": sheet.buffered,
        "Gone": sheet.left,
        "Evicted of" if sheet.client else "Evicted by": sheet.lost_by,
    }
    for title, amounts in parts.items():
        shown = {name: value for name, value in amounts.items() if value != 0}
        if shown:
            yield title
            names = title.endswith((" by", " of", " to"))  # of clients, queues and addresses, as they are
            said = ""
            for name, value in shown.items():
                of = name if value is None or not names else "" if isinstance(value, int | float) else "lost_by"
                reason = sheet.reasons.get(of, "")
                told, said = "as above" if reason and reason == said else reason, reason
                yield f"  {amount_text(value):>16}  {name if names else name.replace('_', ' ')}   {told}".rstrip()
    if sheet.queue:
        if sheet.given_back != 0:
            yield "Delivered and returned"
            yield f"  {amount_text(sheet.given_back):>16}   {sheet.reasons.get('given_back', '')}".rstrip()
        yield "Unexplained"
        yield f"  {amount_text(sheet.unexplained):>16}"
    yield f"  {sheet.sums}"
