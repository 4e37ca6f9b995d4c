"""
What one poll says against the one before: facts, what is unacknowledged since when, the ring ledger, windows.

No names of conditions, no words for people.
"""
