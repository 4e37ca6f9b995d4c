"""Columns that are read from brokers, made of them or exported are those that the rows declare."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.assessment.assess import State, assess
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.registry import KINDS
from penstock.core.errors import SourceError
from penstock.core.table import Table
from penstock.exposition.catalogue import CATALOGUE
from penstock.history.schema import TABLES as HISTORY
from penstock.model import Snapshot
from penstock.settings.policy import Policy
from penstock.transports.recording import RecordingTransport

RECORDINGS = Path(__file__).parents[1] / "recordings"
IMPORTED = {
    "messages_dropped",
    "messages_rejected",
    "producers_blocked",
    "retroactive",
    "flow_limit",
    "flow_resume",
}
"""Columns of the history that only an import from Prometheus has."""


async def snapshots(path: Path, polls: int = 8) -> list[Snapshot]:
    transport = RecordingTransport(path)
    reader = KINDS[transport.header.kind].reader(
        transport, ReaderOptions(name="recorded"), None
    )
    found: list[Snapshot] = []
    while len(found) < polls and not transport.ended:
        try:
            found.append(await reader.poll(3600.0))
        except SourceError:
            continue
    await reader.close()
    return found


def undeclared(tables: dict[str, Table[Any]]) -> Iterator[str]:
    for name, table in tables.items():
        if len(table) and hasattr(rows := type(table.index.rows[0]), "COLUMNS"):
            exported = {family.column for family in CATALOGUE if family.table == name}
            yield from (
                f"{rows.__name__}.{column}"
                for column in (exported | set(table.columns)) - rows.COLUMNS
            )


@pytest.mark.parametrize(
    "recording", ["demo-openmq.jsonl.gz", "artemis-2.44.0.jsonl.gz"]
)
async def test_every_column_is_declared(recording: str) -> None:
    state = State()
    kinds = set()
    for snapshot in await snapshots(RECORDINGS / recording):
        state, shown = assess(state, snapshot, Policy("recorded"))
        read = {
            name: table
            for name in HISTORY
            if (table := getattr(snapshot, name)) is not None
        }
        assert not list(undeclared({**read, **shown}))
        kinds |= {
            type(table.index.rows[0]).__name__
            for table in (*read.values(), *shown.values())
            if len(table)
        }
    assert kinds >= {
        "AddressRow",
        "QueueRow",
        "ConsumerRow",
        "BrokerSeries",
        "QueueSeries",
        "ClientSeries",
    }


@pytest.mark.parametrize("name", HISTORY)
def test_the_history_keeps_what_is_declared(name: str) -> None:
    assert set(HISTORY[name].numbers) - IMPORTED == getattr(  # noqa: B009 - of any of them
        HISTORY[name].row, "COLUMNS"
    )
