"""`python -m penstock.exposition.docs FILE`: write the reference of all metrics (`docs/metrics.md`)."""

import sys
from collections.abc import Iterator
from pathlib import Path

from penstock.exposition.catalogue import CATALOGUE, TABLES, Family

_INTRODUCTION = """\
# Metrics

Generated from the catalogue by `python -m penstock.exposition.docs docs/metrics.md`; do not edit.

- `mq_…` is about brokers, `penstock_…` about the agent. A number that the broker does not give is absent, never 0.
- Names are those of the text format. In OpenMetrics the family lines leave out `_total` and `_info`, and info metrics
  have a type of their own; in text 0.0.4 they are gauges.
- The agent's process is described by the usual `process_…` metrics.
"""


def markdown() -> str:
    """The reference: one table of families per table of the catalogue."""
    return "\n".join([_INTRODUCTION, *(_section(table) for table in TABLES)])


def _section(table: str) -> str:
    return "\n".join([f"## {table}", "", *_rows([family for family in CATALOGUE if family.table == table]), ""])


def _rows(families: list[Family]) -> Iterator[str]:
    yield "| metric | type | labels | meaning | source |"
    yield "|---|---|---|---|---|"
    for family in families:
        labels = ", ".join(f"`{name}`" for name in family.label_names)
        cells = (f"`{family.name}`", family.type, labels, family.help, family.source)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m penstock.exposition.docs FILE")
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
