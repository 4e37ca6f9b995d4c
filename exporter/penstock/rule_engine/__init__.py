"""The rule engine: carries a broker's judgement from poll to poll, evaluates conditions, reports the active ones."""
