"""The conditions: their rules, when one is raised and cleared, its severity, evidence and texts.

Reads what `observation` and `learned` give; reads no clock, does no I/O, knows no metric.
"""
