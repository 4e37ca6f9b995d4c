"""
The rule engine: carries the judgement of a broker from poll to poll, evaluates the conditions, reports the active ones.

Knows no condition by name and no metric; does no I/O and reads no clock.
"""
