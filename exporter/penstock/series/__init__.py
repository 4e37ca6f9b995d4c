"""A snapshot as the series that are shown: labels, groups, totals that never fall, addresses, connections, clients.

No rules: what a number means is said elsewhere.
"""
