"""The history: every poll, crash-safe on disk, published as Parquet; needs pyarrow (the extra `history`)."""
