"""Raw history from what a Prometheus has: rows of queues and brokers, hour by hour.

Known are Penstock's own names, and those that the JMX exporter (by its example for Artemis) and Artemis' own metrics
plugin give. The names of the files follow from the source: imported twice it is the same.
"""

import json
import urllib.error
import urllib.request
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypedDict
from urllib.parse import urlencode, urlsplit

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.catalogues import read_toml
from penstock.core.errors import ConfigError, PenstockError
from penstock.exposition.catalogue import CATALOGUE
from penstock.history.publish import directory, in_order
from penstock.history.schema import BROKER, COUNT, HOUR, QUEUE, TEXT, RowType, series_id
from penstock.history.snapshots import WHOLE
from penstock.history.store import Store

TIMEOUT = 120.0


class PrometheusError(PenstockError):
    """It could not be asked, or refused."""


class Series(TypedDict):
    """One series, as the API of Prometheus gives it."""

    metric: Mapping[str, str]
    values: Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One series. stamps: seconds since 1970, ascending; values as long."""

    labels: Mapping[str, str]
    stamps: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """url: without /api. match: label matchers as in PromQL. The bearer token is kept out of every text."""

    url: str
    match: str = ""
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.username or parts.password:
            raise ConfigError(
                "the URL of Prometheus holds credentials; give a token by --bearer-token-file"
            )
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(
                f"{self.url}: no URL of a Prometheus; such as http://prometheus.example:9090"
            )

    def samples(
        self, names: Sequence[str], begin: float, end: float
    ) -> list[SampleRow]:
        """All samples of the metrics of these names from `begin` to before `end`. Raises PrometheusError."""
        matchers = ",".join(
            [
                '__name__=~"{}"'.format("|".join(names)),
                *([self.match] if self.match else []),
            ]
        )
        # An instant query for a range gives samples with their own times; to some versions its begin is in it.
        seconds = max(round((end - begin) * 1000), 1)
        answer = self._asked(
            {"query": f"{{{matchers}}}[{seconds}ms]", "time": f"{end - 0.001:.3f}"}
        )
        return [_series(one, begin) for one in answer]

    def _asked(self, parameters: Mapping[str, str]) -> list[Series]:
        where = f"{self.url.rstrip('/')}/api/v1/query"
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(where, urlencode(parameters).encode(), headers)  # noqa: S310 - http(s) only
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                found = json.load(answer)
            result: list[Series] = found["data"]["result"]
        except urllib.error.HTTPError as error:
            raise PrometheusError(
                f"{where}: refused ({error.code}): {_said(error)}"
            ) from None
        except OSError as error:
            why = getattr(error, "reason", None) or error
            raise PrometheusError(
                f"{where}: cannot be asked: {why}; is this the address of Prometheus?"
            ) from None
        except (ValueError, LookupError, TypeError):
            raise PrometheusError(
                f"{where}: its answer is not that of Prometheus' API; is the path right?"
            ) from None
        return result


def secret(file: Path) -> str:
    """The token in a file. Raises ConfigError."""
    try:
        return file.read_text(encoding="utf-8-sig").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'is not text'}"
        ) from None


def _said(error: urllib.error.HTTPError) -> str:
    """What Prometheus says of a query that it refuses."""
    try:
        return str(json.load(error)["error"])[:300]
    except (ValueError, LookupError, TypeError, OSError):
        return error.reason or "no reason given"


def _series(one: Series, begin: float) -> SampleRow:
    pairs = [(at, float(text)) for at, text in one["values"] if at >= begin]
    return SampleRow(one["metric"], *np.array(pairs, np.float64).reshape(-1, 2).T)


OWN: Final = {(family.table, family.column): family.name for family in CATALOGUE}

Column = NDArray[np.float64]
CHANGES: Final[Mapping[str, Callable[[Column, Column], Column]]] = {
    "": lambda values, _: values,
    "limit": lambda values, _: np.where(
        values >= 0, values, np.nan
    ),  # Artemis says -1 where there is none
    "percent": lambda values, _: values / 100,
    "milliseconds": lambda values, _: values / 1000,
    "age": lambda values, at: at - values,
}
"""Values and their times → the column as history has it."""


class BackfilledColumn(msgspec.Struct, frozen=True):
    """Where a column comes from, as `backfill.toml` says it."""

    own: tuple[str, str]
    artemis: tuple[str, ...] = ()
    change: str = ""
    own_change: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Newer JMX exporters end the names of configured counters with `_total`."""
        return (
            OWN[self.own],
            *(
                f"artemis_{name}{end}"
                for name in self.artemis
                for end in ("", "_total")
            ),
        )


Columns = Mapping[str, BackfilledColumn]
QUEUES, BROKERS = (
    msgspec.convert(
        read_toml("penstock.history", "backfill.toml")[kind.name],
        dict[str, BackfilledColumn],
    )
    for kind in (QUEUE, BROKER)
)
COUNTERS: Final = QUEUE.counters

Name = tuple[str, ...]
"""Broker, address and queue; of a broker its name alone."""
Rows = dict[Name, dict[float, dict[str, float]]]
"""Name → time → column → value."""


@dataclass(slots=True)
class SeriesLives:
    """The last values of each series' counters, and the life they are in; carried from hour to hour."""

    last: dict[Name, dict[str, float]] = field(default_factory=dict)
    inc: dict[Name, int] = field(default_factory=dict)

    def of(self, name: Name, stamp: float, values: Mapping[str, float]) -> int:
        """The life at `stamp`; a new one where a counter fell."""
        last = self.last.setdefault(name, {})
        counted = {
            column: value
            for column in COUNTERS
            if (value := values.get(column)) is not None
        }
        if name not in self.inc or any(
            value < last.get(column, value) for column, value in counted.items()
        ):
            self.inc[name] = round(stamp * 1000)
        last |= counted
        return self.inc[name]


@dataclass(frozen=True, slots=True)
class Imported:
    """Rows of queues, and how many queues and hours they are of."""

    rows: int
    queues: int
    hours: int


def backfill(
    source: Prometheus,
    store: Store,
    begin: float,
    end: float,
    broker: str,
    progress: Callable[[str], None],
) -> Imported:
    """All hours from `begin` to `end` (seconds since 1970). broker: its name without a label. Raises PenstockError."""
    file = f"import-{zlib.crc32(f'{source.url} {source.match} {broker}'.encode()):08x}.parquet"
    lives = SeriesLives()
    rows = 0
    hours = 0
    names: set[Name] = set()
    for hour in range(int(begin // HOUR), -int(-end // HOUR)):
        if hour % 24 == 0:
            progress(str(np.datetime64(hour, "h").astype("datetime64[D]")))
        span = max(hour * HOUR, begin), min((hour + 1) * HOUR, end)
        queues = backfilled_rows(source, QUEUES, ("address", "queue"), *span, broker)
        if not queues:
            continue
        brokers = backfilled_rows(source, BROKERS, (), *span, broker)
        for kind, found in ((QUEUE, queues), (BROKER, with_polls(brokers, queues))):
            table = table_of(kind, found, lives)
            store.write_table(
                f"{directory(kind.name, hour)}/{file}", in_order(table, kind)
            )
            rows += len(table) if kind is QUEUE else 0
        names |= queues.keys()
        hours += 1
    return Imported(rows, len(names), hours)


def backfilled_rows(
    source: Prometheus,
    columns: Columns,
    labels: tuple[str, ...],
    begin: float,
    end: float,
    broker: str,
) -> Rows:
    """By thing and time what each column was; of several targets that report one thing, the one that reports most."""
    by_target: dict[Name, dict[Name, dict[float, dict[str, float]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for column_name, column in columns.items():
        for one in source.samples(column.names, begin, end):
            name = name_of(one.labels, labels, broker)
            if name is None:
                continue
            rows = by_target[name][
                one.labels.get("job", ""), one.labels.get("instance", "")
            ]
            for stamp, value in pairs(column, one):
                row = rows.setdefault(stamp, {})
                # What is reported by several reasons, as evictions are, is their sum.
                row[column_name] = (
                    row.get(column_name, 0.0) + value
                    if column.own[0] == "eviction"
                    else value
                )
    return {
        name: max(
            sorted(targets.items()), key=lambda one: sum(map(len, one[1].values()))
        )[1]
        for name, targets in by_target.items()
    }


def pairs(column: BackfilledColumn, one: SampleRow) -> Iterator[tuple[float, float]]:
    change = (
        column.own_change
        if one.labels["__name__"] == OWN[column.own]
        else column.change
    )
    values = CHANGES[change](one.values, one.stamps)
    known = np.isfinite(values)
    return zip(one.stamps[known].tolist(), values[known].tolist(), strict=True)


def name_of(
    labels: Mapping[str, str], wanted: tuple[str, ...], broker: str
) -> Name | None:
    """The JMX exporter calls the broker `host`; None for series of something else."""
    names = (
        broker
        or labels.get("broker")
        or labels.get("host")
        or labels.get("instance", ""),
    )
    found = tuple(labels.get(name, "") for name in wanted)
    if not all(found) or (not wanted and labels.get("address")):
        return None
    return names + found


def with_polls(brokers: Rows, queues: Rows) -> Rows:
    """A row per broker and poll, also of brokers that report nothing of themselves."""
    found: Rows = {name: dict(rows) for name, rows in brokers.items()}
    for (broker, *_), rows in queues.items():
        of = found.setdefault((broker,), {})
        for stamp in rows:
            of.setdefault(stamp, {})
    return found


def table_of(kind: RowType, found: Rows, lives: SeriesLives) -> pa.Table:
    """Rows of a kind; numbers that are not given are null."""
    counts = {one.name for one in kind.schema if one.type == COUNT}
    unknown: dict[str, object] = {
        one.name: "" for one in kind.schema if one.type == TEXT and one.name != "parts"
    }
    rows = []
    for name, polls in sorted(found.items()):
        same: dict[str, object] = unknown | dict(
            zip(("broker", "address", "queue"), name, strict=False)
        )
        same["interval"] = interval_of(polls)
        if kind is QUEUE:
            same["sid"] = same["key"] = series_id(*name)
        for stamp, values in sorted(polls.items()):
            row = {**same, **values, "stamp": round(stamp * 1e6), "agent_clock": stamp}
            row |= {
                column: round(min(values[column], WHOLE[1]))
                for column in counts & values.keys()
            }
            if kind is QUEUE:
                row["inc"] = lives.of(name, stamp, values)
            rows.append(row)
    return pa.Table.from_pylist(rows, kind.schema)


def interval_of(rows: Mapping[float, object]) -> float:
    return float(np.median(np.diff(sorted(rows)))) if len(rows) > 1 else 60.0
