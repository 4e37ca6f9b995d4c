"""Tables whose rows keep their identity, windows of the last polls, errors: what all rooms build on."""
