"""The metrics: their catalogue, the renderer of a broker's tables, and the bodies that `/metrics` answers with."""
