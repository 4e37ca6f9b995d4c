"""Findings: what in settings and use will hurt, before it does, with the arithmetic."""
