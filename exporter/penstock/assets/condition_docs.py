"""`python -m penstock.assets.condition_docs docs/conditions.md`: write the sections of all conditions into the page."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Condition, Scope
from penstock.conditions.wording import constant_texts
from penstock.model import BROKER_KINDS
from penstock.settings.constants import Constants

MARK = (
    "<!-- Below this line: made from exporter/penstock/conditions by"
    " `python -m penstock.assets.condition_docs FILE`. -->\n"
)


def page(text: str) -> str:
    """The page with the sections of all conditions in place of what is below the mark."""
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise SystemExit(f"this page has no line {MARK.strip()}")
    return head + MARK + "".join(section(condition) for condition in CONDITIONS.values())


def section(condition: Condition) -> str:
    return f"\n## {condition.name}\n\n" + "".join(f"{line}\n" for line in lines(condition))


def lines(condition: Condition) -> Iterator[str]:
    level = "warning or critical" if condition.may_be_critical else "notice"
    if condition.scope is Scope.BROKER:
        level = "critical" if condition.may_be_critical else "warning"
    event = ", an event" if condition.event else ""
    only = (
        "" if condition.brokers is None else f" {', '.join(called(kind) for kind in sorted(condition.brokers))} only."
    )
    yield f"On a {condition.scope}; {level}{event}.{only}"
    yield ""
    yield f"- **Raised when** {in_words(condition.when)}."
    yield f"- **Quiet on** {in_words(condition.quiet_on)}."
    if condition.causes:
        yield f"- **Possible causes**: {'; '.join(condition.causes)}."
    yield f"- **Advice**: {with_numbers(condition.action)}."
    for kind, variant in condition.variants.items():
        parts = []
        if variant.when is not None:
            parts.append(f"raised when {in_words(variant.when)}.")
        if variant.causes is not None:
            parts.append(f"possible causes: {'; '.join(variant.causes)}.")
        if variant.action is not None:
            parts.append(f"advice: {with_numbers(variant.action)}.")
        if parts:
            yield f"- **On {called(kind)}**: " + " ".join(part[0].upper() + part[1:] for part in parts)
    if condition.alert is not None:
        anchor = condition.alert.name.lower()
        yield f"- **Alert**: [{condition.alert.name}](runbooks/{condition.alert.runbook}.md#{anchor})."


def called(kind: str) -> str:
    return BROKER_KINDS[kind].product.split()[-1]


def in_words(text: str) -> str:
    """With the constants as they are by default."""
    return text.format_map(constant_texts(Constants()))


def with_numbers(action: str) -> str:
    """With *N* in place of each number; of texts that depend on numbers only what is always there."""
    return re.sub(r"\{[^}]*\}", "*N*", re.sub(r"\{\w+_text\}", "", action))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m penstock.assets.condition_docs FILE")
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text(encoding="utf-8")), encoding="utf-8")
