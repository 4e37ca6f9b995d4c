"""How each kind of broker is asked, and its answers as the tables of a snapshot; one folder a kind.

No conditions, no metric names.
"""
