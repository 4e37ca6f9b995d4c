"""Eclipse OpenMQ: what to ask, how to read the answers, one Snapshot a poll."""

from penstock.sources.openmq.reader import OpenMQReader, ReaderOptions

__all__ = ["OpenMQReader", "ReaderOptions"]
