"""The requests to each kind of broker, and its answers as tables of a snapshot; one folder a kind. No metric names."""
