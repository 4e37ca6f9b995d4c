"""The conditions: their rules, when one is raised and cleared, its severity, evidence and texts."""
