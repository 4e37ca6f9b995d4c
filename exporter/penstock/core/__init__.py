"""Tables whose rows keep their identity from poll to poll, windows of the last polls, errors: what all rooms build on.

Knows no broker, no metric and no rule; imports no other room.
"""
