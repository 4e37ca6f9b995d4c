"""One poll against the one before: facts, what is unacknowledged since when, windows. No words for people."""
