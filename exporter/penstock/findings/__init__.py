"""
Configuration problems: each rule in a file of its own in `rules/`, what they read, and the arithmetic of flow limits.

Raises no condition; does no I/O.
"""
