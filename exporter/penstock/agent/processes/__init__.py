"""Large brokers in worker processes, chosen by the agent: Python runs one thread of a process at a time."""
