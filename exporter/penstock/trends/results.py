"""The tables of a run, made of the tiers by Spark, and the few rows of them that the report needs.

Each table is one Parquet file, there whole or not at all. Of what is told in the report only the rows come back.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.account.fates import LOSSES
from penstock.history.schema import UNSEEN
from penstock.history.store import Store
from penstock.trends import facts, tables
from penstock.trends.days import Pointers, files_of
from penstock.trends.kernel import TIERS

EACH: Final = 50
MOST: Final = 200
"""Queues in the report, in forecasts and gauges."""
MOST_BROKERS: Final = 500
MOST_CLIENTS: Final = 1000
MOST_LOSSES: Final = 1000
LABELS: Final = ("broker", *dict.fromkeys(name for tier in TIERS.values() for name in tier.texts))
SERIES: Final = pa.schema(
    [("sid", pa.int64()), *((name, pa.string()) for name in ("kind", *LABELS, "first_day", "last_day"))]
)
PLACE: Final = [(name, pa.string()) for name in ("broker", "address", "queue")]
EPISODES: Final = pa.schema(
    [
        *PLACE, ("client", pa.string()), ("condition", pa.string()), ("begin", tables.STAMP), ("end", tables.STAMP),
        ("severity", pa.string()), ("open", pa.bool_()), ("ended_by", pa.string()), ("end_known", pa.bool_()),
    ]
)  # fmt: skip
FATES: Final = pa.schema(
    [
        ("day", pa.date32()), *PLACE, ("fate", pa.string()), ("client", pa.string()), ("messages", pa.int64()),
        ("uncertain", pa.float64()), ("lost", pa.bool_()),
    ]
)  # fmt: skip
LIMITS: Final = pa.schema([("sid", pa.int64()), ("kind", pa.string()), *PLACE[:2], *list(facts.LIMIT)])

Plain = dict[str, Any]


class Tables:
    """The tables of one run over the days of `window`, as Parquet files in `out` and as Spark's views."""

    def __init__(self, session: Any, out: Store, window: Pointers) -> None:
        self.session, self.out, self.window = session, out, window

    def write(self, changed: Pointers) -> None:
        """Make all tables. changed: days of the window that are not those of the last run."""
        self._save("series", self._series(changed), SERIES, ("sid", "kind"))
        self._save("episodes", self._episodes(), EPISODES, ("broker", "address", "queue", "client", "condition", "begin"))
        self._save("fates", self._fates(), FATES, ("day", *(name for name, _ in PLACE), "fate", "client"))
        limits = None
        for kind in facts.COLUMNS:
            found = facts.facts(self.session, self.out, self.window, kind).persist()
            if kind == "queue":
                self.profile = sums_by_position(found)
            labelled = found.join(self.session.table("series").where(f"kind = '{kind}'"), "sid")
            schema = pa.schema([*SERIES, *(field for field in facts.schema_of(kind) if field.name not in ("sid", "limits", "profile"))])
            self._save(f"facts-{kind}", labelled.drop("limits", "profile"), schema, ("sid",))
            more = labelled.selectExpr("sid", "kind", "broker", "address", "inline(limits)")
            limits = more if limits is None else limits.unionByName(more)
        self._save("limits", limits, LIMITS, ("sid", "limit_name"))

    def top_queues(self) -> list[int]:
        self.session.table("`facts-queue`").createOrReplaceTempView("facts")
        return [row.sid for row in self.session.sql(tables.sql("top", each=str(EACH), most=str(MOST))).collect()]

    def brokers(self) -> list[int]:
        rows = self.session.table("series").where("kind = 'broker'").orderBy("broker").limit(MOST_BROKERS)
        return [row.sid for row in rows.collect()]

    def clients_of(self, queues: Iterable[Plain]) -> list[int]:
        """The clients of some queues, those that settled most."""
        names = [(queue["broker"], queue["address"], queue["queue"]) for queue in queues]
        theirs = self.session.createDataFrame(names, "broker string, address string, queue string")
        rows = self.session.table("`facts-consumer`").join(theirs, ["broker", "address", "queue"])
        return [row.sid for row in rows.orderBy("settled", ascending=False).limit(MOST_CLIENTS).collect()]

    def leading(self, kind: str, sids: Sequence[int]) -> list[Plain]:
        """All that is known of some series, with their labels, by name."""
        if not sids:
            return []
        labels = self.session.table("series").where(f"kind = '{kind}'").where(f"sid IN ({', '.join(map(str, sids))})")
        by_sid = {row.sid: {name: row[name] for name in ("broker", *TIERS[kind].texts)} for row in labels.collect()}
        found = facts.details(self.session, self.out, self.window, kind, sids)
        named = [by_sid[one["sid"]] | one for one in found]
        return sorted(named, key=lambda one: tuple(one.get(name, "") for name in ("broker", "address", "queue", "client")))

    def losses(self) -> list[Plain]:
        return [row.asDict() for row in self.session.sql(tables.sql("losses", most=str(MOST_LOSSES))).collect()]

    def stalls(self) -> list[Plain]:
        return [row.asDict() for row in self.session.sql(tables.sql("stalls", most=str(MOST))).collect()]

    def fleet(self) -> Plain:
        """Sums over all queues. profile: messages an hour by hour of the week, None where nobody looked."""
        counts = "count(*) AS queues, count_if(added > 0 AND NOT growth_clear) AS unclear, count_if(added > 0) AS busy"
        row = self.session.table("`facts-queue`").selectExpr(*counts.split(", ")).first()
        return {**row.asDict(), "profile": self.profile}

    def _save(self, name: str, frame: Any, schema: Any, keys: Sequence[str]) -> None:
        """Write one file, and read what follows from it."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

        file = f"{name}.parquet"
        parts = tables.write(frame.withColumn(tables.FILE, f.lit(file)), self.out, schema, keys)
        if not parts:
            self.out.write_table(file, schema.empty_table())
        tables.frame(self.session, self.out, [file], schema).persist().createOrReplaceTempView(f"`{name}`")

    def _frame(self, table: str, schema: Any, days: Pointers | None = None) -> Any:
        return tables.frame(self.session, self.out, files_of(self.window if days is None else days, table), schema)

    def _series(self, changed: Pointers) -> Any:
        """The series of the last run, and those of days that changed since."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

        known = [name for name in ("series.parquet",) if self.out.exists(name)]
        found = tables.frame(self.session, self.out, known, SERIES)
        day = f.date_format(f.timestamp_seconds("start"), "yyyy-MM-dd")
        for kind in TIERS:
            named = self._frame(f"series/kind={kind}", tables.TierTables(kind).labels, changed)
            named = named.withColumns({"kind": f.lit(kind), "first_day": day, "last_day": day}).drop("start")
            found = found.unionByName(named, allowMissingColumns=True)
        found.createOrReplaceTempView("named")
        labels = ", ".join(f"max_by({name}, last_day) AS {name}" for name in LABELS)
        return self.session.sql(tables.sql("series", labels=labels))

    def _episodes(self) -> Any:
        self._frame("condition", tables.REPORTS).createOrReplaceTempView("condition")
        polls = self._frame("h1/kind=broker", pa.schema([(name, pa.int64()) for name in ("sid", "start", "t1")]))
        polls.join(self.session.table("series").where("kind = 'broker'"), "sid").createOrReplaceTempView("polls")
        return self.session.sql(tables.sql("episodes", unseen=str(UNSEEN)))

    def _fates(self) -> Any:
        of = tables.TierTables("fate")
        self._frame("i1/kind=fate", of.increases).createOrReplaceTempView("i1")
        self._frame("d1/kind=fate", of.rows).createOrReplaceTempView("d1")
        return self.session.sql(tables.sql("fates", losses=", ".join(f"'{fate}'" for fate in LOSSES)))


def sums_by_position(found: Any) -> list[float | None]:
    """Of the lists `profile`, by position; None where none has a number."""
    rows = found.selectExpr("posexplode(profile) AS (hour, value)").groupBy("hour").sum("value").orderBy("hour").collect()
    return [row[1] for row in rows]
