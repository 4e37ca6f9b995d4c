"""The account of every message: what came to a queue is there, or left for a reason; see docs/account.md."""
