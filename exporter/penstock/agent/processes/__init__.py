"""Large brokers in worker processes, chosen by the agent: Python runs one thread of a process at a time.

wire (messages, what of a broker's blocks changed) → worker (an agent in a process without a server) → handle (its
process, seen by the agent) → pool (which broker is large, which worker has it) → spread (questions to all of them).
"""
