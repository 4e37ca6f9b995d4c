"""ActiveMQ Classic: what to ask, how to read the answers, one Snapshot a poll."""
