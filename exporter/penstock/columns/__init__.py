"""Every number that a broker sends, declared once: what it is, where it comes from, whether it is stored and shown."""
