"""The account of every message: what came to a queue is there, or left for a reason; see docs/account.md.

Most amounts are bounds: *at least* so many messages as something proves, *at most* so many as nothing excludes. Both
are the same where an amount is exact. The other words of the account are explained in the modules that define them:
books (`queue_books`), address books (`address_books`), bare address (`bare_addresses`), visit (`visits`), dead letter
(`dead_letters`), given back (`given_back`), in doubt (`in_doubt`), tenure (`rollbacks`), fate (`fates`).
"""
