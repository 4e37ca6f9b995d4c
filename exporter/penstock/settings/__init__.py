"""What operators say of queues and clients, and the constants of the rules, as plain frozen values.

No files and no YAML: the room `config` reads those.
"""
