"""`penstock top`: what an agent knows, in a terminal; lines for terminals. The one room that needs textual.

Asks as any reader of the API does; derives nothing.
"""
