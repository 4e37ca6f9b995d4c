"""The tables of the trends: their columns, DataFrames that become Parquet files, and files that become DataFrames.

Spark's workers read and write the files themselves, through the Store, so that a bucket needs no more than a directory
does. A file is there whole or not at all, and the same rows make the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.safe_files import OWNER_ONLY
from penstock.history.schema import CONDITION, STAMP, TIME, fitted, parquet_options
from penstock.history.store import Store
from penstock_trends.kernel import TIERS, Tier
from penstock_trends.session import spread

ROW_GROUP: Final = 65_536
KEYS: Final = ("sid", "inc", "start")
"""One row of a tier for each of these."""
BINS: Final = pa.map_(pa.int64(), pa.int64())
FILE: Final = "file"
"""Column that says into which file a row goes, by its path below the store."""


@dataclass(frozen=True, slots=True)
class TierTables:
    """The columns of one kind: in `h1` and `d1` (what merges), `i1` (what counters grew), `series` (labels)."""

    kind: str

    @property
    def tier(self) -> Tier:
        return TIERS[self.kind]

    @property
    def rows(self) -> Any:
        """Of h1 and d1."""
        tier = self.tier
        fields = [pa.field(name, pa.int64()) for name in (*KEYS, "n", "hours")]
        fields += [
            pa.field("expected", pa.float64()),
            *(pa.field(name, pa.int64()) for name in ("t0", "t1")),
        ]
        fields += [pa.field(name, pa.float64()) for name in tier.summed]
        fields += [pa.field(name, pa.int64()) for name in (*tier.bounds, *tier.spans)]
        return pa.schema(
            [*fields, *([pa.field("bins", BINS)] if tier.histogram else [])]
        )

    @property
    def increases(self) -> Any:
        """Of i1; of a kind without counters there is none."""
        of_hours_only = {*self.tier.bounds, *self.tier.spans, "bins"}
        fields = [field for field in self.rows if field.name not in of_hours_only]
        grown = [f"{gap}{name}" for name in self.tier.counters for gap in ("", "gap_")]
        return pa.schema(
            [
                *fields,
                pa.field("complete", pa.bool_()),
                *(pa.field(name, pa.int64()) for name in grown),
            ]
        )

    @property
    def labels(self) -> Any:
        """Of series: each sid once in a day, with the last hour in which it was seen."""
        texts = [(name, pa.string()) for name in ("broker", *self.tier.texts)]
        return pa.schema([("sid", pa.int64()), ("start", pa.int64()), *texts])


BINNED: Final = pa.schema([("sid", pa.int64()), ("bins", BINS)])
"""Of h1 and d1, where only the bins are wanted."""
REPORTS: Final = pa.schema(
    (
        field.name,
        pa.string()
        if pa.types.is_dictionary(field.type)
        else STAMP
        if field.type == TIME
        else field.type,
    )
    for field in CONDITION.schema
)
"""Of `condition`: what the agent wrote of each condition."""


def schema_of_hours(kind: str) -> Any:
    """What the kernel makes: rows of h1 with their labels, and of files that cannot be read a row with `problem`.

    Of conditions it is what the agent recorded, unchanged.
    """
    if kind == CONDITION.name:
        return pa.schema([*REPORTS, ("problem", pa.string())])
    of = TierTables(kind)
    return pa.schema([*[*of.labels][2:], *of.rows, ("problem", pa.string())])


PART: Final = pa.schema(
    [
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("polls", pa.int64()),
        ("problem", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written: its rows, and the sum of their column n; or what was wrong with a file that was read."""

    file: str
    rows: int
    polls: int
    problem: str = ""


def sql(name: str, counters: Sequence[str] = (), **values: object) -> str:
    """The text of a query in `sql/`, its {names} filled in.

    A line that names {c} is repeated for each of the counters.
    """
    text = (files("penstock_trends") / "sql" / f"{name}.sql").read_text()
    lines = []
    for line in text.splitlines():
        if "{c}" in line:
            lines += [line.replace("{c}", counter) for counter in counters]
        else:
            lines.append(line)
    return "\n".join(lines).format(**values)


# --- DataFrames → files


def write(
    frame: Any,
    store: Store,
    schema: Any,
    keys: Sequence[str],
    labels: Any = None,
    mode: int = OWNER_ONLY,
) -> list[WrittenFile]:
    """Write the rows into the files that their column `file` names, in the order of `keys`; only counts come back.

    labels: schema of columns that are written once per sid, beside: `h1/…` → `series/…`. mode: who may read the files.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only where Spark is

    ordered = frame.repartition(FILE).sortWithinPartitions(FILE, *keys)
    work = partial(write_parts, store.url, schema, labels, mode)
    made = ordered.mapInArrow(work, from_arrow_schema(PART)).collect()
    return sorted(
        (WrittenFile(**row.asDict()) for row in made),
        key=lambda part: (part.file, part.problem),
    )


def write_parts(
    url: str, schema: Any, labels: Any, mode: int, batches: Iterator[Any]
) -> Iterator[Any]:
    """In a worker: rows that are together by file → files, and a row of PART for each."""
    store = Store(url)
    for name, group in groupby(runs(batches), key=itemgetter(0)):
        if not name:
            problems = [
                text for _, batch in group for text in batch["problem"].to_pylist()
            ]
            yield pa.RecordBatch.from_pylist(
                [{"file": "", "problem": text} for text in problems], PART
            )
            continue
        part: dict[str, Any] = {"file": name, "rows": 0, "polls": 0, "problem": ""}
        texts: list[Any] = []
        store.write_with(
            name,
            partial(fill, schema, labels, (batch for _, batch in group), part, texts),
            mode,
        )
        if labels is not None:
            store.write_table(
                name.replace("h1/", "series/", 1), once(pa.concat_tables(texts))
            )
        yield pa.RecordBatch.from_pylist([part], PART)


def fill(
    schema: Any,
    labels: Any,
    batches: Iterator[Any],
    part: dict[str, Any],
    texts: list[Any],
    sink: Any,
) -> None:
    """One file. part: gets its counts, texts: its labels."""
    with pq.ParquetWriter(sink, schema, **options(schema)) as writer:
        for table in sized(batches):
            writer.write_table(
                table.select(schema.names).cast(schema), row_group_size=ROW_GROUP
            )
            part["rows"] += len(table)
            part["polls"] += pc.sum(table["n"]).as_py() if "n" in schema.names else 0
            if labels is not None:
                texts.append(once(table.select(labels.names).cast(labels)))


def runs(batches: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    """Name of the file and its rows, batch by batch."""
    for batch in batches:
        encoded = pc.run_end_encode(batch[FILE])
        begin = 0
        for name, end in zip(
            encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True
        ):
            yield name, batch.slice(begin, end - begin)
            begin = end


def sized(batches: Iterator[Any]) -> Iterator[Any]:
    """Tables of ROW_GROUP rows, the last of fewer: whatever pieces they came in, the files are the same."""
    waiting = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        while rows >= ROW_GROUP:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, ROW_GROUP).combine_chunks()
            waiting = table.slice(ROW_GROUP).to_batches()
            rows = rows - ROW_GROUP
    if rows:
        yield pa.Table.from_batches(waiting).combine_chunks()


def once(table: Any) -> Any:
    """The last row of each sid; they are together."""
    sid = table["sid"].to_numpy()
    return table.filter(
        pa.array(np.append(sid[1:] != sid[:-1], [True] * bool(len(sid))))
    )


def options(schema: Any) -> dict[str, Any]:
    found = parquet_options(schema)
    if "bins" in schema.names:
        parts = ("bins.key_value.key", "bins.key_value.value")
        found["column_encoding"] |= dict.fromkeys(parts, "DELTA_BINARY_PACKED")
        found["use_dictionary"] = [
            name for name in found["use_dictionary"] if name != "bins"
        ]
    return found


# --- files → DataFrames


def frame(session: Any, store: Store, paths: Sequence[str], schema: Any) -> Any:
    """The rows of some files as a DataFrame of these columns; one that a file lacks is that of its path, such as
    kind=queue, or null.
    """
    return spread(session, paths, partial(read_parts, store.url, schema), schema)


def read_parts(url: str, schema: Any, batches: Iterator[Any]) -> Iterator[Any]:
    store = Store(url)
    for batch in batches:
        for path in batch.column(0).to_pylist():
            table = read(store, path, schema)
            for name, equals, text in (part.partition("=") for part in path.split("/")):
                if equals and name in schema.names:
                    table = table.set_column(
                        schema.names.index(name), name, pa.repeat(text, len(table))
                    )
            yield from table.to_batches(max_chunksize=ROW_GROUP)


def read(store: Store, path: str, schema: Any) -> Any:
    """One file as an Arrow table of these columns; one that it lacks is null. Raises StoreError."""
    with store.errors(path), store.fs.open_input_file(store.path(path)) as source:
        file = pq.ParquetFile(source)
        there = [name for name in schema.names if name in file.schema_arrow.names]
        table = file.read(there, use_threads=False)
        return fitted(table, schema)


def in_order(rows: Any) -> Any:
    """Rows of a tier so that each series is together and ascending: sums of fractions are always the same."""
    return rows.repartition("sid").sortWithinPartitions(*KEYS)


def file_column(
    folder: str, generations: Mapping[str, str], buckets: int, time: str = "start"
) -> Any:
    """The expression for the column `file` of a tier: '' of rows that have no time, as they are no rows of it.

    folder: such as h1/kind=queue. generations: by day. time: column of seconds, or a timestamp.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    day = f.date_format(
        f.timestamp_seconds(time) if time == "start" else f.col(time), "yyyy-MM-dd"
    )
    named = f.create_map(
        *[f.lit(text) for pair in generations.items() for text in pair]
    )[day]
    number = (
        f.lpad((f.col("sid") % buckets).cast("string"), 5, "0")
        if buckets > 1
        else f.lit("00000")
    )
    path = f.concat(
        f.lit(f"{folder}/dt="),
        day,
        f.lit("/gen="),
        named,
        f.lit("/part-"),
        number,
        f.lit(".parquet"),
    )
    return f.coalesce(path, f.lit(""))
