"""Apache Artemis and Red Hat AMQ Broker: what to ask, how to read the answers, one Snapshot a poll."""

from penstock.sources.artemis.reader import ArtemisReader, ReaderOptions

__all__ = ["ArtemisReader", "ReaderOptions"]
