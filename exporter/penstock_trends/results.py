"""The tables of a run, made from the tiers by Spark, and the few rows of them that the report needs.

Each table is one Parquet file, there whole or not at all. Only the rows of the leading queues, clients and brokers come
back to the driver.
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
from penstock_trends.untyped import ArrowSchema, SparkSession

EACH: Final = 50
"""Queues that lead in one respect, such as losses."""
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
    """Returns fields of one type for a schema."""
    return [(name, kind) for name in names]


PLACE_NAMES: Final = ("broker", "address", "queue")
PLACE: Final = fields(pa.string(), *PLACE_NAMES)
SERIES: Final = pa.schema(
    [
        ("sid", pa.int64()),
        *fields(pa.string(), "kind", *LABELS, "first_day", "last_day"),
    ]
)
OF_CONDITION: Final = fields(pa.string(), "client", "condition")
EPISODES: Final = pa.schema(
    [
        *PLACE,
        *OF_CONDITION,
        *fields(STAMP, "begin", "end"),
        *fields(pa.string(), "severity", "ended_by"),
        *fields(pa.bool_(), "open", "end_known"),
    ]
)
FATES: Final = pa.schema(
    [
        ("day", pa.date32()),
        *PLACE,
        *fields(pa.string(), "fate", "client"),
        ("messages", pa.int64()),
        ("uncertain", pa.float64()),
        ("lost", pa.bool_()),
    ]
)
LIMITS: Final = pa.schema(
    [
        ("sid", pa.int64()),
        *fields(pa.string(), "kind", "broker", "address"),
        *list(facts.LIMIT),
    ]
)
OF_CONSUMERS: Final = (
    "hours",
    "consumers",
    "held",
    "most_held",
    "most_bytes",
    "empty_share",
    "settled",
    "most_settled",
)
CONSUMERS: Final = pa.schema([*SERIES, *fields(pa.float64(), *OF_CONSUMERS)])
OF_ADDRESSES: Final = (
    "first",
    "last",
    "messages",
    "messages_peak",
    "limit_messages",
    "memory_bytes",
    "memory_bytes_peak",
    "limit_bytes",
    "paging",
)
ADDRESSES: Final = pa.schema([*SERIES, *fields(pa.float64(), *OF_ADDRESSES)])
WEEKS: Final = pa.schema([("sid", pa.int64()), *PLACE, *list(facts.WEEK)])
FLOW: Final = pa.schema(
    [*PLACE, *fields(pa.float64(), "seen", "without_flow", "availability")]
)
WITHOUT_FLOW: Final = (
    "stalled",
    "open_transaction",
    "orphaned",
    "redelivery_loop",
    "churn_without_progress",
    "not_dispatching",
    "no_consumer",
    "paused",
    "disabled",
    "depaging_frozen",
    "producers_blocked",
    "blocked_by_operator",
    "rejecting",
)
"""Conditions in which messages of a queue do not get on, or not with one of its clients."""
FLOW_WEEKS: Final = 4
WEEK_SECONDS: Final = 7 * DAY
HOURS_A_WEEK: Final = 168
PERIODS: Final = {
    "week": (0, 1),
    "week before": (1, 2),
    "month": (0, 4),
    "month before": (4, 8),
}
"""Periods of page 1 of the report: from and to which week back."""


class Tables:
    """The tables of one run over the days of `window`, as Parquet files in `out` and as Spark's views.

    calendars: of brokers by name, "" of any other.
    """

    def __init__(
        self,
        session: SparkSession,
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
        keys = (*PLACE_NAMES, "client", "condition", "begin")
        self._save("episodes", self._episodes(), EPISODES, *keys)
        consumers = self._from_days("consumer", "consumers")
        self._save("consumers", consumers, CONSUMERS, "sid")
        addresses = self._from_days("address", "addresses")
        self._save("addresses", addresses, ADDRESSES, "sid")
        queues = self._facts("queue").persist()
        brokers = self._facts("broker").persist()
        self._save_facts("queues", "queue", queues)
        self._save_facts("brokers", "broker", brokers)
        self.profile = sums_by_hour(queues)
        weeks = queues.selectExpr("sid", *PLACE_NAMES, "inline(weeks)")
        self._save("weeks", weeks, WEEKS, "sid", "back")
        self._save("limits", self._limits(brokers), LIMITS, "sid", "limit_name")
        self._save("flow", self._flow(), FLOW, *PLACE_NAMES)

    def write_accounts(self, changed: Pointers) -> None:
        """Make the tables of the series, and of where messages went."""
        self._save("series", self._series(changed), SERIES, "sid", "kind")
        keys = ("day", *PLACE_NAMES, "fate", "client")
        self._save("fates", self._fates(), FATES, *keys)

    def top_queues(self) -> list[Plain]:
        """Returns all facts of the queues that lead in any respect."""
        leading = self.session.sql(tables.sql("top", each=EACH, most=MOST))
        return self._details("queue", leading)

    def brokers(self) -> list[Plain]:
        """Returns all facts of the brokers."""
        brokers = self.session.table("brokers").orderBy("broker")
        return self._details("broker", brokers.limit(MOST_BROKERS))

    def _details(self, kind: str, frame: Any) -> list[Plain]:
        """Returns all facts of the series in a frame, with their labels, by name."""
        names = ("broker", *TIERS[kind].texts)
        labels = {
            row.sid: {name: row[name] for name in names} for row in frame.collect()
        }
        details = facts.details(self.session, self.source, kind, list(labels))
        rows = [labels[row["sid"]] | row for row in details]
        return sorted(
            rows,
            key=lambda row: tuple(row.get(name, "") for name in PLACE_NAMES),
        )

    def clients_of(self, queues: Iterable[Plain]) -> list[Plain]:
        """Returns the clients of some queues that settled most, by name."""
        places = [tuple(queue[name] for name in PLACE_NAMES) for queue in queues]
        wanted = self.session.createDataFrame(
            places, "broker string, address string, queue string"
        )
        consumers = self.session.table("consumers").join(wanted, list(PLACE_NAMES))
        most = consumers.orderBy("settled", "sid", ascending=False).limit(MOST_ROWS)
        return plain_rows(most.orderBy(*PLACE_NAMES, "client"))

    def rows(self, query: str, most: int) -> list[Plain]:
        """Returns the first rows of a query in `sql/` about the tables."""
        return plain_rows(self.session.sql(tables.sql(query, most=most)))

    def periods(self) -> dict[str, Plain]:
        """Returns sums over the fleet for each of PERIODS that the history covers, by name."""
        begin = min(pointer.start for pointer in self.window.values())
        whole_weeks = (self.until - begin) // WEEK_SECONDS
        rows = [
            self._period_row(name, newest, oldest)
            for name, (newest, oldest) in PERIODS.items()
            if oldest <= whole_weeks
        ]
        if not rows:
            return {}
        sums = self.session.sql(tables.sql("periods", rows=", ".join(rows)))
        return {row["name"]: row for row in plain_rows(sums)}

    def _period_row(self, name: str, newest: int, oldest: int) -> str:
        """Returns the values of a period for the query. newest, oldest: between so many weeks back."""
        begin = self.until - oldest * WEEK_SECONDS
        until = self.until - newest * WEEK_SECONDS
        return f"('{name}', {newest}, {oldest - 1}, {begin}, {until})"

    def flow(self, target: float) -> Plain:
        """Returns how many queues there are, how many missed the target, and the worst of them.

        budget: the used share of the time without flow that the target allows; None if the target allows none.
        """
        missed = f"availability < {target}"
        budget = f"without_flow / nullif((1 - {target}) * seen, 0) AS budget"
        flow = self.session.table("flow").selectExpr("*", budget)
        counts = flow.selectExpr(
            "count(*) AS queues", f"count_if({missed}) AS missed"
        ).first()
        worst = flow.where(missed).orderBy("availability", *PLACE_NAMES).limit(MOST)
        return {"target": target, **counts.asDict(), "worst": plain_rows(worst)}

    def addresses(self) -> list[Plain]:
        """Returns limits of addresses that are met, or have a date, the earliest first."""
        limits = self.session.table("limits").where(
            "kind = 'address' AND state IN ('met', 'rising')"
        )
        return plain_rows(limits.orderBy("low", "sid", "limit_name").limit(MOST))

    def fleet(self) -> Plain:
        """Returns sums over all queues. profile: messages an hour by hour of the week, None where unknown."""
        counts = self.session.table("queues").selectExpr(
            "count(*) AS queues",
            "count_if(added > 0 AND NOT growth_clear) AS unclear",
        )
        return {**counts.first().asDict(), "profile": self.profile}

    def _save(self, name: str, frame: Any, schema: ArrowSchema, *keys: str) -> None:
        """Write one file; later queries read its rows as the view of that name."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

        frame = frame.persist()
        frame.createOrReplaceTempView(name)
        file = f"{name}.parquet"
        placed = frame.withColumn(tables.FILE, f.lit(file))
        parts = tables.write(placed, self.out, schema, keys)
        if not parts:
            self.out.write_table(file, schema.empty_table())

    def _save_facts(self, name: str, kind: str, frame: Any) -> None:
        """Write the facts of a kind without the lists in them, which become tables of their own."""
        columns = [
            field
            for field in facts.schema_of(kind)
            if field.name != "sid" and field.name not in facts.LISTS
        ]
        schema = pa.schema([*SERIES, *columns])
        self._save(name, frame.drop(*facts.LISTS), schema, "sid")

    def _frame(self, table: str, schema: ArrowSchema) -> Any:
        """Returns the rows of a table of the tiers."""
        paths = files_of(self.window, table)
        return tables.frame(self.session, self.out, paths, schema)

    def _series(self, changed: Pointers) -> Any:
        """Returns the series of the last run, and those of days that changed since."""
        paths = ["series.parquet"] if self.out.exists("series.parquet") else []
        for kind in TIERS:
            paths += files_of(changed, f"series/kind={kind}")
        schema = SERIES.append(pa.field("dt", pa.string()))
        series = tables.frame(self.session, self.out, paths, schema)
        series.createOrReplaceTempView("named")
        last_labels = [
            f"max_by({name}, coalesce(last_day, dt)) AS {name}" for name in LABELS
        ]
        return self.session.sql(tables.sql("series", labels=", ".join(last_labels)))

    def _facts(self, kind: str) -> Any:
        """Returns a DataFrame with the facts and labels of each series of a kind."""
        return self._labelled(kind, facts.facts(self.session, self.source, kind))

    def _limits(self, brokers: Any) -> Any:
        """Returns the limits of brokers and addresses."""
        rows = brokers.unionByName(self._facts("address"), allowMissingColumns=True)
        return rows.selectExpr("sid", "kind", "broker", "address", "inline(limits)")

    def _flow(self) -> Any:
        """Returns for each queue how long it was seen in the last FLOW_WEEKS weeks, and how long without flow."""
        query = tables.sql(
            "flow",
            begin=self.until - FLOW_WEEKS * WEEK_SECONDS,
            until=self.until,
            weeks=FLOW_WEEKS,
            conditions=quoted(WITHOUT_FLOW),
        )
        return self.session.sql(query)

    def _labelled(self, kind: str, frame: Any) -> Any:
        """Returns the rows of a frame with the labels of their series."""
        series = self.session.table("series").where(f"kind = '{kind}'")
        return frame.join(series, "sid")

    def _from_days(self, kind: str, query: str) -> Any:
        """Returns the rows of a query over the days of a kind."""
        days = self._frame(f"d1/kind={kind}", tables.TierTables(kind).rows)
        tables.in_order(days).createOrReplaceTempView("d1")
        return self._labelled(kind, self.session.sql(tables.sql(query)))

    def _episodes(self) -> Any:
        """Returns the episodes of conditions; the view `of_all` has those of incidents, too."""
        reports = self._frame("condition", tables.REPORTS)
        reports.createOrReplaceTempView("condition")
        schema = pa.schema(fields(pa.int64(), "sid", "start", "t1"))
        polls = self._labelled("broker", self._frame("h1/kind=broker", schema))
        polls.createOrReplaceTempView("polls")
        episodes = self.session.sql(tables.sql("episodes", unseen=UNSEEN)).persist()
        episodes.createOrReplaceTempView("of_all")
        return episodes.where(f"condition NOT LIKE '{INCIDENT}%'")

    def _fates(self) -> Any:
        """Returns for each day and place how many messages had which fate, and by which client."""
        fate_tables = tables.TierTables("fate")
        increases = self._frame("i1/kind=fate", fate_tables.increases)
        increases.createOrReplaceTempView("i1")
        days = self._frame("d1/kind=fate", fate_tables.rows)
        days.createOrReplaceTempView("d1")
        return self.session.sql(tables.sql("fates", losses=quoted(LOSSES)))


def plain_rows(frame: Any) -> list[Plain]:
    """Returns the rows of a DataFrame as dicts."""
    return [row.asDict() for row in frame.collect()]


def quoted(names: Iterable[str]) -> str:
    """Returns the names as texts of SQL."""
    return ", ".join(f"'{name}'" for name in names)


def sums_by_hour(queues: Any) -> list[float | None]:
    """Returns the messages of all queues by hour of the week (168).

    None where the queues that were seen in the hour have less than nine tenths of the traffic.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    hours = queues.where("added > 0").selectExpr(
        "added", "posexplode(profile) AS (hour, value)"
    )
    enough = f.expr("sum(if(value IS NULL, 0, added)) >= 0.9 * sum(added)")
    messages = f.when(enough, f.sum("value")).alias("messages")
    rows = hours.groupBy("hour").agg(messages).orderBy("hour").collect()
    if not rows:
        return [None] * HOURS_A_WEEK
    return [row.messages for row in rows]
