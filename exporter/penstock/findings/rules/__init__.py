"""The rules of the findings by subject; no helper of several subjects lives here."""
