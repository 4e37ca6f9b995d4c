"""The tables of the trends: their columns, and how DataFrames become Parquet files and files become DataFrames.

Spark's workers read and write the files themselves, through the Store: so a bucket works as a directory does. A file is
there whole or not at all, and the same rows make the same bytes.

A tier is a set of tables: h1 has hourly rows, d1 rows of days, i1 how much counters grew in each hour, and series the
labels of each series, of which the others have the number (`sid`) only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from penstock_trends.untyped import ArrowBatch, ArrowSchema, ArrowTable, SparkSession

ROW_GROUP: Final = 65_536
KEYS: Final = ("sid", "inc", "start")
"""One row of a tier for each of these."""
BINS: Final = pa.map_(pa.int64(), pa.int64())
FILE: Final = "file"
"""Column with the file of a row, by its path below the store."""


@dataclass(frozen=True, slots=True)
class TierTables:
    """The columns of one kind: of `h1` and `d1` (sums that merge), `i1` (growth of counters), `series` (labels)."""

    kind: str

    @property
    def tier(self) -> Tier:
        return TIERS[self.kind]

    @property
    def rows(self) -> Any:
        """The columns of h1 and d1."""
        tier = self.tier
        fields = [
            *whole_numbers(*KEYS, "n", "hours"),
            pa.field("expected", pa.float64()),
            *whole_numbers("t0", "t1"),
        ]
        fields += [pa.field(name, pa.float64()) for name in tier.summed]
        fields += whole_numbers(*tier.bounds, *tier.spans)
        if tier.histogram:
            fields.append(pa.field("bins", BINS))
        return pa.schema(fields)

    @property
    def increases(self) -> Any:
        """The columns of i1; a kind without counters has none."""
        tier = self.tier
        only_in_hours = {*tier.bounds, *tier.spans, "bins"}
        fields = [field for field in self.rows if field.name not in only_in_hours]
        fields.append(pa.field("complete", pa.bool_()))
        for counter in tier.counters:
            fields += whole_numbers(counter, f"gap_{counter}")
        return pa.schema(fields)

    @property
    def labels(self) -> Any:
        """The columns of series: each sid once in a day, with the last hour in which it was seen."""
        texts = [pa.field(name, pa.string()) for name in ("broker", *self.tier.texts)]
        return pa.schema([*whole_numbers("sid", "start"), *texts])


def whole_numbers(*names: str) -> list[Any]:
    """Returns fields of 64 bits."""
    return [pa.field(name, pa.int64()) for name in names]


def stored_type(field: Any) -> Any:
    """Returns the type of a column of raw reports in the tier: plain text, times in microseconds."""
    if pa.types.is_dictionary(field.type):
        return pa.string()
    if field.type == TIME:
        return STAMP
    return field.type


BINNED: Final = pa.schema([("sid", pa.int64()), ("bins", BINS)])
"""The columns of h1 and d1 for readers that need the bins only."""
REPORTS: Final = pa.schema(
    (field.name, stored_type(field)) for field in CONDITION.schema
)
"""The columns of `condition`: what the agent wrote of each condition."""


def schema_of_hours(kind: str) -> Any:
    """Returns the columns that workers make of raw files.

    They are those of h1 with their labels, and of conditions those that the agent recorded, unchanged. A row with
    `problem` is about a file that cannot be read.
    """
    problem = ("problem", pa.string())
    if kind == CONDITION.name:
        return pa.schema([*REPORTS, problem])
    kind_tables = TierTables(kind)
    texts = [
        field for field in kind_tables.labels if field.name not in ("sid", "start")
    ]
    return pa.schema([*texts, *kind_tables.rows, problem])


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
    """A file that was written, with its rows and the sum of their column n; or the problem of a file that was read."""

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
    schema: ArrowSchema,
    keys: Sequence[str],
    labels: Any = None,
    mode: int = OWNER_ONLY,
) -> list[WrittenFile]:
    """Write the rows into the files that their column `file` names, in the order of `keys`.

    Only counts come back. labels: schema of the columns that are written beside, once per sid: `h1/…` → `series/…`.
    mode: who may read the files.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only where Spark is

    ordered = frame.repartition(FILE).sortWithinPartitions(FILE, *keys)
    work = partial(write_parts, store.url, schema, labels, mode)
    rows = ordered.mapInArrow(work, from_arrow_schema(PART)).collect()
    parts = [WrittenFile(**row.asDict()) for row in rows]
    return sorted(parts, key=lambda part: (part.file, part.problem))


def write_parts(
    url: str, schema: ArrowSchema, labels: Any, mode: int, batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """In a worker: yields a row of PART for each file that it writes. batches: the rows of a file are together."""
    store = Store(url)
    for file, group in groupby(runs(batches), key=itemgetter(0)):
        rows = (batch for _, batch in group)
        if not file:
            yield problems_of(rows)
            continue
        writer = FileWriter(schema, labels)
        store.write_with(file, partial(writer.fill, rows), mode)
        if labels is not None:
            series = file.replace("h1/", "series/", 1)
            store.write_table(series, last_of_each(pa.concat_tables(writer.texts)))
        part = {"file": file, "rows": writer.rows, "polls": writer.polls, "problem": ""}
        yield pa.RecordBatch.from_pylist([part], PART)


def problems_of(batches: Iterator[ArrowBatch]) -> Any:
    """Returns rows of PART for rows that belong to no file: each has a problem."""
    texts = [text for batch in batches for text in batch["problem"].to_pylist()]
    rows = [{"file": "", "problem": text} for text in texts]
    return pa.RecordBatch.from_pylist(rows, PART)


@dataclass(slots=True)
class FileWriter:
    """Writes one file, and counts what it writes.

    Attributes:
        schema: Of the file.
        labels: Schema of the labels that are in the rows, too; None without labels.
        rows: Written so far.
        polls: The sum of their column n.
        texts: Tables of their labels, each sid once in a table.
    """

    schema: ArrowSchema
    labels: Any
    rows: int = 0
    polls: int = 0
    texts: list[Any] = field(default_factory=list)

    def fill(self, batches: Iterator[ArrowBatch], sink: Any) -> None:
        """Write all rows of the batches to a sink, a file that is open."""
        names = self.schema.names
        with pq.ParquetWriter(sink, self.schema, **options(self.schema)) as writer:
            for table in sized(batches):
                stored = table.select(names).cast(self.schema)
                writer.write_table(stored, row_group_size=ROW_GROUP)
                self.rows += len(table)
                if "n" in names:
                    self.polls += pc.sum(table["n"]).as_py()
                if self.labels is not None:
                    texts = table.select(self.labels.names).cast(self.labels)
                    self.texts.append(last_of_each(texts))


def runs(batches: Iterator[ArrowBatch]) -> Iterator[tuple[str, Any]]:
    """Yields runs of rows that belong to one file, with its name, in the order of the batches.

    A run ends with its batch, so a file may have several.
    """
    for batch in batches:
        encoded = pc.run_end_encode(batch[FILE])
        names = encoded.values.to_pylist()
        ends = encoded.run_ends.to_pylist()
        begin = 0
        for name, end in zip(names, ends, strict=True):
            yield name, batch.slice(begin, end - begin)
            begin = end


def sized(batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
    """Yields the rows again as tables of ROW_GROUP rows, the last one of fewer.

    So a file has the same bytes, whatever sizes the batches have.
    """
    waiting = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        while rows >= ROW_GROUP:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, ROW_GROUP).combine_chunks()
            waiting = table.slice(ROW_GROUP).to_batches()
            rows -= ROW_GROUP
    if rows:
        yield pa.Table.from_batches(waiting).combine_chunks()


def last_of_each(table: ArrowTable) -> Any:
    """Returns the last row of each sid; the rows of a sid are together."""
    sid = table["sid"].to_numpy()
    is_last = np.ones(len(sid), np.bool_)  # the last row of all is one
    is_last[:-1] = sid[1:] != sid[:-1]
    return table.filter(pa.array(is_last))


def options(schema: ArrowSchema) -> dict[str, Any]:
    """Returns the options of the Parquet writer: those of the history, with bins packed as differences.

    Bins ascend, so their differences are small; a dictionary would gain nothing.
    """
    writer_options = parquet_options(schema)
    if "bins" not in schema.names:
        return writer_options
    packed = ("bins.key_value.key", "bins.key_value.value")
    writer_options["column_encoding"] |= dict.fromkeys(packed, "DELTA_BINARY_PACKED")
    writer_options["use_dictionary"] = [
        name for name in writer_options["use_dictionary"] if name != "bins"
    ]
    return writer_options


# --- files → DataFrames


def frame(
    session: SparkSession, store: Store, paths: Sequence[str], schema: ArrowSchema
) -> Any:
    """Returns the rows of some files as a DataFrame of these columns.

    A column that a file lacks is that of its path, such as kind=queue, or null.
    """
    return spread(session, paths, partial(read_parts, store.url, schema), schema)


def read_parts(
    url: str, schema: ArrowSchema, batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """In a worker: yields the rows of the files that the batches name."""
    store = Store(url)
    for batch in batches:
        for path in batch.column(0).to_pylist():
            table = with_columns_of_path(read(store, path, schema), path)
            yield from table.to_batches(max_chunksize=ROW_GROUP)


def with_columns_of_path(table: ArrowTable, path: str) -> Any:
    """Returns the table with the columns that are in the path of its file, such as `kind=queue`."""
    for part in path.split("/"):
        name, equals, text = part.partition("=")
        if equals and name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, pa.repeat(text, len(table)))
    return table


def read(store: Store, path: str, schema: ArrowSchema) -> Any:
    """Returns one file as an Arrow table of these columns; a column that it lacks is null. Raises StoreError."""
    with store.errors(path), store.fs.open_input_file(store.path(path)) as source:
        file = pq.ParquetFile(source)
        stored = file.schema_arrow.names
        names = [name for name in schema.names if name in stored]
        return fitted(file.read(names, use_threads=False), schema)


def in_order(rows: Any) -> Any:
    """Returns the rows of a tier, each series together and ascending: so sums of fractions are always the same."""
    return rows.repartition("sid").sortWithinPartitions(*KEYS)


def file_column(
    folder: str, generations: Mapping[str, str], buckets: int, time: str = "start"
) -> Any:
    """Returns the expression for the column `file` of a tier: '' for rows without a time, which belong to no file.

    folder: such as h1/kind=queue. generations: by day. time: column of seconds, or a timestamp.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    moment = f.timestamp_seconds(time) if time == "start" else f.col(time)
    day = f.date_format(moment, "yyyy-MM-dd")
    days_and_names = [f.lit(text) for pair in generations.items() for text in pair]
    generation = f.create_map(*days_and_names)[day]
    bucket = f.lit("00000")
    if buckets > 1:
        number = (f.col("sid") % buckets).cast("string")
        bucket = f.lpad(number, 5, "0")
    path = f.concat(
        f.lit(f"{folder}/dt="),
        day,
        f.lit("/gen="),
        generation,
        f.lit("/part-"),
        bucket,
        f.lit(".parquet"),
    )
    return f.coalesce(path, f.lit(""))
