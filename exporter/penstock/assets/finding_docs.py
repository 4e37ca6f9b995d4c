"""`python -m penstock.assets.finding_docs FILE`: write the table of rules in `docs/findings.md`."""

import sys
from collections.abc import Iterable
from pathlib import Path

from penstock.findings import catalogue
from penstock.findings.finding import FindingRule
from penstock.model import BROKER_KINDS, BrokerKind

BEGIN = "<!-- Made by `python -m penstock.assets.finding_docs docs/findings.md`; do not edit. -->\n"
END = "<!-- end -->\n"


def page(text: str) -> str:
    """The page with the table of today between the two marks."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def table() -> str:
    rows = [
        (f"`{rule.name}`", rule.scope, ", ".join(sorted(map(str, kinds(rule)))), rule.when, rule.arithmetic)
        for rule in catalogue.RULES
    ]
    heads = [("rule", "scope", "brokers", "applies when", "arithmetic shown"), ("---",) * 5]
    return "".join(f"| {' | '.join(row)} |\n" for row in (*heads, *rows))


def kinds(rule: FindingRule) -> Iterable[BrokerKind]:
    return BROKER_KINDS.values() if rule.brokers is None else rule.brokers


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m penstock.assets.finding_docs FILE")
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text(encoding="utf-8")), encoding="utf-8")
