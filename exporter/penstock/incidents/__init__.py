"""Incidents: one root and all that comes of it, made from the active conditions and numbers of a poll."""
