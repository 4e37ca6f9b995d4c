"""A snapshot as the series that are shown: labels, groups, totals that never fall. No rules."""
