"""The account of every message: what came to a queue is there, or left for a reason.

Sums and their errors follow from the counters of one poll against those of a first one; see docs/account.md.
"""
