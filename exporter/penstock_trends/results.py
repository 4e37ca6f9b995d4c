"""The tables of a run, made of the tiers by Spark, and the few rows of them that the report needs.

Each table is one Parquet file, there whole or not at all. Only the rows of what leads come back to the driver.
"""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from penstock.account.fates import LOSSES
from penstock.history.compact import DAY
from penstock.history.schema import INCIDENT, STAMP, UNSEEN
from penstock.history.store import Store
from penstock.settings.calendar import Calendar
from penstock_trends import facts, tables
from penstock_trends.days import Pointers, files_of
from penstock_trends.kernel import TIERS

EACH: Final = 50
MOST: Final = 200
"""Queues in the report, in forecasts and gauges."""
MOST_BROKERS: Final = 500
MOST_ROWS: Final = 1000
"""Clients, and places where messages were lost, in the report."""
LABELS: Final = (
    "broker",
    *dict.fromkeys(name for tier in TIERS.values() for name in tier.texts),
)
Plain = dict[str, Any]


def fields(kind: Any, *names: str) -> list[Any]:
    return [(name, kind) for name in names]


PLACE_NAMES: Final = ("broker", "address", "queue")
PLACE: Final = fields(pa.string(), *PLACE_NAMES)
SERIES: Final = pa.schema(
    [
        ("sid", pa.int64()),
        *fields(pa.string(), "kind", *LABELS, "first_day", "last_day"),
    ]
)
EPISODES: Final = pa.schema([
    *PLACE, *fields(pa.string(), "client", "condition"), *fields(STAMP, "begin", "end"),
    *fields(pa.string(), "severity", "ended_by"), *fields(pa.bool_(), "open", "end_known"),
])  # fmt: skip
FATES: Final = pa.schema([
    ("day", pa.date32()), *PLACE, *fields(pa.string(), "fate", "client"), ("messages", pa.int64()),
    ("uncertain", pa.float64()), ("lost", pa.bool_()),
])  # fmt: skip
LIMITS: Final = pa.schema(
    [
        ("sid", pa.int64()),
        *fields(pa.string(), "kind", "broker", "address"),
        *list(facts.LIMIT),
    ]
)
CONSUMERS: Final = pa.schema([*SERIES, *fields(
    pa.float64(), "hours", "consumers", "held", "most_held", "most_bytes", "empty_share", "settled", "most_settled",
)])  # fmt: skip
ADDRESSES: Final = pa.schema([*SERIES, *fields(
    pa.float64(), "first", "last", "messages", "messages_peak", "limit_messages", "memory_bytes", "memory_bytes_peak",
    "limit_bytes", "paging",
)])  # fmt: skip


WEEKS: Final = pa.schema([("sid", pa.int64()), *PLACE, *list(facts.WEEK)])
FLOW: Final = pa.schema(
    [*PLACE, *fields(pa.float64(), "seen", "without_flow", "availability")]
)
WITHOUT_FLOW: Final = (
    "stalled", "open_transaction", "orphaned", "redelivery_loop", "churn_without_progress", "not_dispatching",
    "no_consumer", "paused", "disabled", "depaging_frozen", "producers_blocked", "blocked_by_operator", "rejecting",
)  # fmt: skip
"""Conditions in which messages of a queue do not get on, or not with one of its clients."""
FLOW_WEEKS: Final = 4
PERIODS: Final = {
    "week": (0, 1),
    "week before": (1, 2),
    "month": (0, 4),
    "month before": (4, 8),
}
"""Of which page 1 of the report has sums: from and to which week back."""


class Tables:
    """The tables of one run over the days of `window`, as Parquet files in `out` and as Spark's views.

    calendars: of brokers by name, "" of any other.
    """

    def __init__(
        self,
        session: Any,
        out: Store,
        window: Pointers,
        calendars: facts.Calendars | None = None,
    ) -> None:
        self.session = session
        self.out = out
        self.window = window
        self.source = facts.Source(out, window, calendars or {"": Calendar()})
        self.profile: list[float | None] = []
        self.until = max((one.end for one in window.values()), default=0)

    def write(self, changed: Pointers) -> None:
        """Make all tables. changed: days of the window that are not those of the last run."""
        self.write_accounts(changed)
        self._save(
            "episodes",
            self._episodes(),
            EPISODES,
            "broker",
            "address",
            "queue",
            "client",
            "condition",
            "begin",
        )
        self._save(
            "consumers", self._of_days("consumer", "consumers"), CONSUMERS, "sid"
        )
        self._save("addresses", self._of_days("address", "addresses"), ADDRESSES, "sid")
        queues, brokers = (self._facts(kind).persist() for kind in ("queue", "broker"))
        for name, kind, found in (
            ("queues", "queue", queues),
            ("brokers", "broker", brokers),
        ):
            columns = [
                field
                for field in [*facts.schema_of(kind)][1:]
                if field.name not in facts.LISTS
            ]
            self._save(
                name, found.drop(*facts.LISTS), pa.schema([*SERIES, *columns]), "sid"
            )
        self.profile = sums_by_hour(queues)
        weeks = queues.selectExpr("sid", "broker", "address", "queue", "inline(weeks)")
        self._save("weeks", weeks, WEEKS, "sid", "back")
        limits = brokers.unionByName(self._facts("address"), allowMissingColumns=True)
        limits = limits.selectExpr("sid", "kind", "broker", "address", "inline(limits)")
        self._save("limits", limits, LIMITS, "sid", "limit_name")
        self._save("flow", self._flow(), FLOW, "broker", "address", "queue")

    def write_accounts(self, changed: Pointers) -> None:
        """Which series there are, and where messages went."""
        self._save("series", self._series(changed), SERIES, "sid", "kind")
        self._save(
            "fates",
            self._fates(),
            FATES,
            "day",
            "broker",
            "address",
            "queue",
            "fate",
            "client",
        )

    def top_queues(self) -> list[Plain]:
        return self._leading(
            "queue", self.session.sql(tables.sql("top", each=EACH, most=MOST))
        )

    def brokers(self) -> list[Plain]:
        return self._leading(
            "broker",
            self.session.table("brokers").orderBy("broker").limit(MOST_BROKERS),
        )

    def _leading(self, kind: str, frame: Any) -> list[Plain]:
        """All that is known of some series, with their labels, by name."""
        labels = {
            row.sid: {name: row[name] for name in ("broker", *TIERS[kind].texts)}
            for row in frame.collect()
        }
        found = [
            labels[one["sid"]] | one
            for one in facts.details(self.session, self.source, kind, [*labels])
        ]
        return sorted(
            found,
            key=lambda one: tuple(
                one.get(name, "") for name in ("broker", "address", "queue")
            ),
        )

    def clients_of(self, queues: Iterable[Plain]) -> list[Plain]:
        """The clients of some queues, those that settled most, by name."""
        names = [
            (queue["broker"], queue["address"], queue["queue"]) for queue in queues
        ]
        theirs = self.session.createDataFrame(
            names, "broker string, address string, queue string"
        )
        rows = self.session.table("consumers").join(
            theirs, ["broker", "address", "queue"]
        )
        most = rows.orderBy("settled", "sid", ascending=False).limit(MOST_ROWS)
        return [
            row.asDict()
            for row in most.orderBy("broker", "address", "queue", "client").collect()
        ]

    def rows(self, query: str, most: int) -> list[Plain]:
        """Of a query in `sql/` about the tables."""
        return [
            row.asDict()
            for row in self.session.sql(tables.sql(query, most=most)).collect()
        ]

    def periods(self) -> dict[str, Plain]:
        """Sums over the fleet of the last seven and 28 days, and of those before; only what the history holds whole."""
        whole = (self.until - min(one.start for one in self.window.values())) // (
            7 * DAY
        )
        known = {name: weeks for name, weeks in PERIODS.items() if weeks[1] <= whole}
        rows = ", ".join(
            f"('{name}', {first}, {last - 1}, {self.until - last * 7 * DAY}, {self.until - first * 7 * DAY})"
            for name, (first, last) in known.items()
        )
        made = (
            self.session.sql(tables.sql("periods", rows=rows)).collect() if rows else []
        )
        return {row.name: row.asDict() for row in made}

    def flow(self, target: float) -> Plain:
        """How many queues there are, how many missed the target, and which most. budget: share of the time without flow
        that the target allows, that was used; None of a target that allows none.
        """
        missed = f"availability < {target}"
        budget = f"without_flow / nullif((1 - {target}) * seen, 0) AS budget"
        flow = self.session.table("flow").selectExpr("*", budget)
        counts = (
            flow.selectExpr("count(*) AS queues", f"count_if({missed}) AS missed")
            .first()
            .asDict()
        )
        worst = (
            flow.where(missed)
            .orderBy("availability", *PLACE_NAMES)
            .limit(MOST)
            .collect()
        )
        return {"target": target, **counts, "worst": [row.asDict() for row in worst]}

    def addresses(self) -> list[Plain]:
        """Limits of addresses that are met, or will be, the first to be met first."""
        rows = self.session.table("limits").where(
            "kind = 'address' AND state IN ('met', 'rising')"
        )
        return [
            row.asDict()
            for row in rows.orderBy("low", "sid", "limit_name").limit(MOST).collect()
        ]

    def fleet(self) -> Plain:
        """Sums over all queues. profile: messages an hour by hour of the week, None where nothing was seen."""
        counts = (
            "count(*) AS queues",
            "count_if(added > 0 AND NOT growth_clear) AS unclear",
        )
        return {
            **self.session.table("queues").selectExpr(*counts).first().asDict(),
            "profile": self.profile,
        }

    def _save(self, name: str, frame: Any, schema: Any, *keys: str) -> None:
        """Write one file; what follows reads the rows as the view of that name."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

        frame = frame.persist()
        frame.createOrReplaceTempView(name)
        parts = tables.write(
            frame.withColumn(tables.FILE, f.lit(f"{name}.parquet")),
            self.out,
            schema,
            keys,
        )
        if not parts:
            self.out.write_table(f"{name}.parquet", schema.empty_table())

    def _frame(self, table: str, schema: Any, days: Pointers | None = None) -> Any:
        return tables.frame(
            self.session,
            self.out,
            files_of(self.window if days is None else days, table),
            schema,
        )

    def _series(self, changed: Pointers) -> Any:
        """The series of the last run, and those of days that changed since."""
        files = [name for name in ("series.parquet",) if self.out.exists(name)]
        files += [
            path for kind in TIERS for path in files_of(changed, f"series/kind={kind}")
        ]
        named = tables.frame(
            self.session, self.out, files, SERIES.append(pa.field("dt", pa.string()))
        )
        named.createOrReplaceTempView("named")
        labels = ", ".join(
            f"max_by({name}, coalesce(last_day, dt)) AS {name}" for name in LABELS
        )
        return self.session.sql(tables.sql("series", labels=labels))

    def _facts(self, kind: str) -> Any:
        return self._labelled(kind, facts.facts(self.session, self.source, kind))

    def _flow(self) -> Any:
        begin = self.until - FLOW_WEEKS * 7 * DAY
        names = ", ".join(f"'{name}'" for name in WITHOUT_FLOW)
        return self.session.sql(
            tables.sql(
                "flow",
                begin=begin,
                until=self.until,
                weeks=FLOW_WEEKS,
                conditions=names,
            )
        )

    def _labelled(self, kind: str, found: Any) -> Any:
        return found.join(self.session.table("series").where(f"kind = '{kind}'"), "sid")

    def _of_days(self, kind: str, query: str) -> Any:
        days = self._frame(f"d1/kind={kind}", tables.TierTables(kind).rows)
        tables.in_order(days).createOrReplaceTempView("d1")
        return self._labelled(kind, self.session.sql(tables.sql(query)))

    def _episodes(self) -> Any:
        self._frame("condition", tables.REPORTS).createOrReplaceTempView("condition")
        polls = self._frame(
            "h1/kind=broker", pa.schema(fields(pa.int64(), "sid", "start", "t1"))
        )
        self._labelled("broker", polls).createOrReplaceTempView("polls")
        found = self.session.sql(tables.sql("episodes", unseen=UNSEEN)).persist()
        found.createOrReplaceTempView("of_all")
        return found.where(f"condition NOT LIKE '{INCIDENT}%'")

    def _fates(self) -> Any:
        of = tables.TierTables("fate")
        self._frame("i1/kind=fate", of.increases).createOrReplaceTempView("i1")
        self._frame("d1/kind=fate", of.rows).createOrReplaceTempView("d1")
        return self.session.sql(
            tables.sql("fates", losses=", ".join(f"'{fate}'" for fate in LOSSES))
        )


def sums_by_hour(found: Any) -> list[float | None]:
    """Messages of all queues by hour of the week; None where those that were seen in it have less than nine tenths of
    the traffic.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    rows = (
        found.where("added > 0")
        .selectExpr("added", "posexplode(profile) AS (hour, value)")
        .groupBy("hour")
    )
    enough = f.expr("sum(if(value IS NULL, 0, added)) >= 0.9 * sum(added)")
    hours = rows.agg(f.when(enough, f.sum("value"))).orderBy("hour").collect()
    return [row[1] for row in hours] or [None] * 168
