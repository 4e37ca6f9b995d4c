"""`penstock top`: what an agent knows, in a terminal. The one part that needs textual."""
