"""
The history: every poll, crash-safe on disk, published as Parquet for the trend jobs and any other reader.

Needs pyarrow (`pip install 'penstock[history]'`); the agent imports it only where the configuration asks for history.
"""
