"""Configuration problems: the rules in `rules/`, what they read, and the arithmetic of flow limits."""
