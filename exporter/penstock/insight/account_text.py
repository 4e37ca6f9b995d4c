"""The sheets of the account as lines for a terminal."""

from collections.abc import Iterator

from penstock.insight.answers import AccountList, AccountSheet
from penstock.insight.formatting import amount_text as text


def account_lines(found: AccountList) -> Iterator[str]:
    """The sheets, line by line, for a terminal."""
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
        "Came": sheet.came,
        "There": sheet.there,
        "In delivery": sheet.delivering,
        "Buffered by": sheet.buffered,
        "Left": sheet.left,
        "Evicted of" if sheet.client else "Evicted by": sheet.lost_by,
    }
    for title, amounts in parts.items():
        shown = {name: value for name, value in amounts.items() if value != 0}
        if shown:
            yield title
            names = title.endswith((" by", " of", " to"))  # of clients, queues and addresses, as they are
            for name, value in shown.items():
                reason = f"   {sheet.reasons[name]}" if name in sheet.reasons and (value is None or not names) else ""
                yield f"  {text(value):>16}  {name if names else name.replace('_', ' ')}{reason}"
    if sheet.queue:
        if sheet.given_back != 0:
            yield "Taken and given back"
            yield f"  {text(sheet.given_back):>16}"
        yield "Unexplained"
        yield f"  {text(sheet.unexplained):>16}"
    yield f"  {sheet.sums}"
