"""The Spark session: embedded by default, on a cluster by its master URL; under spark-submit its session."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.errors import ConfigError, PenstockError
from penstock_trends.environment import check_environment
from penstock_trends.untyped import ArrowBatch, ArrowSchema

LOCAL = "local[*]"
TASKS_PER_CORE = 3
TIME_ZONE = "spark.sql.session.timeZone"
DRIVER_MEMORY = "1g"
"""Enough for any fleet: the driver gets names of files, counts, and the rows of the report."""

QUERIES = {
    TIME_ZONE: "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Bins of many series are collected at once: by hash, not by sorting.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
}
EMBEDDED = {
    # Some fifty queries are planned, each run once: to compile them, and to plan them again on the way, costs more than
    # it saves.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # one that failed would fail in every later run of the session
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    "spark.driver.memory": "800m",
}
"""On one machine, which reads and writes most of the data in Python."""

TRACEBACK = "Traceback (most recent call last):"
GATEWAY_EXITED = "[JAVA_GATEWAY_EXITED]"
CALLING = "An error occurred while calling "
"""Start of a line that only announces an error of Java."""
Work = Callable[[Iterator[Any]], Iterator[Any]]
"""Arrow batches → Arrow batches, in a worker."""


def spark_session(
    master: str | None = None, settings: Mapping[str, str] | None = None
) -> Any:
    """The session of Spark with the settings that the jobs need; under spark-submit its session.

    Raises PenstockError where something is missing that Spark needs.

    Args:
        master: URL of a cluster; None: the one of spark-submit, else embedded.
        settings: Of Spark, by name. They win over flags of spark-submit, and these over
            the defaults here.
    """
    # Workers would otherwise take the first python3 on the PATH, which need not have pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    import pyspark  # noqa: PLC0415 - the environment must be set before
    from pyspark.sql import SparkSession  # noqa: PLC0415

    settings = settings or {}
    builder = SparkSession.builder.appName("penstock trends")
    submitted = "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if master or not submitted:
        master = master or settings.get("spark.master", LOCAL)
        builder = builder.master(master)
    if not submitted:
        check_environment(pyspark.__version__, local=str(master).startswith("local"))
        settings = defaults(str(master)) | dict(settings)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with clear_errors():
        session = builder.getOrCreate()
    set_queries(session, settings)
    session.sparkContext.setLogLevel("ERROR")
    return session


def set_queries(session: Any, settings: Mapping[str, str]) -> None:
    """Set QUERIES, which the queries need, where neither `settings` nor spark-submit has another value.

    The time zone is always UTC: days of the tables are those of UTC.
    """
    configured = {name for name, _ in session.sparkContext.getConf().getAll()}
    for name in QUERIES.keys() - configured - settings.keys():
        session.conf.set(name, QUERIES[name])
    session.conf.set(TIME_ZONE, "UTC")  # whatever the session had before


def defaults(master: str) -> dict[str, str]:
    """Returns settings with which Spark is started; spark-submit has its own."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": DRIVER_MEMORY,
    }
    is_local = master.startswith("local")
    if is_local or "://127.0.0.1" in master:
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    if is_local:
        settings |= EMBEDDED
    return settings


@contextmanager
def clear_errors() -> Iterator[None]:
    """Raise failures of Spark as PenstockError; for a file that cannot be read or written, with what to do."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - only where Spark is
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (
        PySparkException,
        Py4JJavaError,  # of a failed broadcast
    ) as error:
        raise PenstockError(failure_text(str(error))) from error


def failure_text(error: str) -> str:
    """Returns the message for an error of Spark."""
    file = re.search(r"StoreError: (.+?\.parquet): (.+)", error)
    if file is None:
        store = re.search(r"StoreError: (.+)", error)
        return store[1] if store else f"Spark failed: {last_error(error)}"
    path = file[1]
    day = re.search(r"(.*?)/[^/]+(?:/kind=[^/]+)?/dt=([^/]+)/gen=", path)
    remedy = f"{day[1]}/days/{day[2]}.json" if day else "it"
    return (
        f"{path}: {file[2]}; remove {remedy} and run again: what is lost is made again"
    )


def last_error(text: str) -> str:
    """Returns the error that ended a job: the last one of a worker's traceback, else the first line of Spark's text."""
    if GATEWAY_EXITED in text:
        return "its Java process ended as it started; what that wrote above says why"
    lines = [line for line in text.splitlines() if line.strip()]
    traceback = lines_of_last_traceback(lines)
    for line in traceback:
        if not line[0].isspace():
            return line
    for line in lines:
        if not line.startswith(CALLING):
            return line.removeprefix(": ")
    return "it does not say why"


def lines_of_last_traceback(lines: Sequence[str]) -> Sequence[str]:
    """Returns the lines after the head of the last traceback; none where there is no traceback."""
    for number in reversed(range(len(lines))):
        if lines[number].rstrip().endswith(TRACEBACK):
            return lines[number + 1 :]
    return []


def settings_of(file: Path | None, pairs: Sequence[str]) -> dict[str, str]:
    """Returns Spark's settings in a file like spark-defaults.conf, and those of KEY=VALUE texts, which win.

    Raises ConfigError.
    """
    settings = settings_in(file) if file else {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise ConfigError(
                f"--conf {pair}: write it as KEY=VALUE, such as spark.driver.memory=2g"
            )
        settings[name.strip()] = value.strip()
    for name, value in settings.items():
        if not name.startswith("spark."):
            raise ConfigError(
                f"{name}: not a setting of Spark; their names begin with `spark.`"
            )
        if name == TIME_ZONE and value != "UTC":
            raise ConfigError(
                f"{name}={value}: days of the tables are those of UTC; leave it out"
            )
    return settings


def settings_in(file: Path) -> dict[str, str]:
    """Returns the settings in a file; `#` begins a comment. Raises ConfigError."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{file}: cannot be read: {reason}") from None
    settings = {}
    for line in lines:
        text = line.partition("#")[0].strip()
        if text:
            name, _, value = text.replace("=", " ", 1).partition(" ")
            settings[name] = value.strip()
    return settings


def description(session: Any) -> str:
    """Returns a text with version, master and driver memory of a session."""
    context = session.sparkContext
    memory = context.getConf().get("spark.driver.memory", "1g, Spark's default")
    return f"Spark {session.version} at {context.master}, driver memory {memory}"


def spread(
    session: Any, units: Sequence[str], function: Work, schema: ArrowSchema
) -> Any:
    """Returns a DataFrame with the rows that workers make of units of work.

    Args:
        session: Of Spark.
        units: Texts; each names a piece of work.
        function: Makes rows of batches with one column of units, in a worker.
        schema: Of the rows, an Arrow schema.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only where Spark is

    if not units:
        return session.createDataFrame([], from_arrow_schema(schema))
    # Some tasks per core even out what a unit costs; a task per unit would cost more than most units.
    tasks = min(len(units), TASKS_PER_CORE * session.sparkContext.defaultParallelism)
    numbers = session.range(0, len(units), 1, tasks)
    return numbers.mapInArrow(
        partial(of_numbers, list(units), function), from_arrow_schema(schema)
    )


def of_numbers(
    units: list[str], function: Work, batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """In a worker: the rows that `function` makes of the units whose numbers are in the batches.

    Spark spreads the numbers: each task gets the list of all units, and works on those
    of its numbers.
    """

    def batches_of_units() -> Iterator[Any]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            texts = pa.array([units[number] for number in numbers])
            yield pa.record_batch([texts], ["unit"])

    return function(batches_of_units())
