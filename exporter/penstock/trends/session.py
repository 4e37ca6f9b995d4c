"""The Spark session: embedded by default, any cluster by its master URL; under spark-submit the one that is there."""

import os
import sys
from typing import Any

LOCAL = "local[*]"
TASKS_PER_CORE = 3


def spark_session(master: str | None = None, **conf: str) -> Any:
    """A session with the settings that the jobs need. master: None = what spark-submit says, else embedded."""
    # Workers would otherwise take the first python3 on the PATH, which need not have pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the environment must be set before

    builder = SparkSession.builder.appName("penstock trends")
    submitted = "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if master or not submitted:
        builder = builder.master(master or LOCAL)
    local = (master or LOCAL).startswith("local") or "://127.0.0.1" in (master or "")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": "8",
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if local else {}),
        **conf,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def over(session: Any, units: list[str], function: Any, schema: Any) -> Any:
    """`function` (iterator of Arrow batches → iterator of Arrow batches) over `units`, as one Arrow table."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only where Spark is

    # Some tasks per core even out what a unit costs; a task per unit would cost more than most units.
    tasks = min(len(units), TASKS_PER_CORE * session.sparkContext.defaultParallelism)
    frame = session.createDataFrame([(unit,) for unit in units], "unit string").repartition(max(tasks, 1))
    return frame.mapInArrow(function, from_arrow_schema(schema)).toArrow()
