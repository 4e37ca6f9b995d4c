"""The history: every poll, crash-safe on disk, published as Parquet for the trend jobs and any other reader.

Needs pyarrow (`penstock[history]`), imported only where history is on; knows no Spark and judges nothing.
"""
