"""The rule engine: carries a broker's judgement from poll to poll, evaluates the conditions, reports the active ones.

Knows no condition by name and no metric; does no I/O and reads no clock.
"""
