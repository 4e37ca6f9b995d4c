"""Apache Artemis and Red Hat AMQ Broker: what to ask, how to read the answers, one Snapshot a poll."""
