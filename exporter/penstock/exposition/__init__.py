"""The metrics: their catalogue, the renderer of a broker's tables, and the bodies that `/metrics` answers with.

Does not know how a number was reached, and asks no broker.
"""
