"""Trends: PySpark jobs over the history, forecasts, advice, the report.

Needs nothing of the agent; rules are those of the live agent, never a second set.
"""
