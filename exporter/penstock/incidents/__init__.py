"""Incidents: one root and all that comes of it, made from the active conditions and numbers of a poll.

Pure: knows no metric, does no I/O and reads no clock; what it keeps is passed from poll to poll.
"""
