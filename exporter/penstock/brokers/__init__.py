"""How each kind of broker is asked, and its answers as tables of a snapshot; one folder a kind. No metric names."""
