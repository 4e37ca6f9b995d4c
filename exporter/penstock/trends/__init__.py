"""Trends: PySpark jobs over the history, forecasts, the report."""
