"""Names for the types of pyarrow and pyspark, which these libraries do not declare to a type checker."""

from typing import Any

ArrowTable = Any
"""A `pyarrow.Table`."""
ArrowColumn = Any
"""A `pyarrow.Array` or `pyarrow.ChunkedArray`."""
ArrowBatch = Any
"""A `pyarrow.RecordBatch`."""
ArrowSchema = Any
"""A `pyarrow.Schema`."""
SparkSession = Any
"""A `pyspark.sql.SparkSession`."""
