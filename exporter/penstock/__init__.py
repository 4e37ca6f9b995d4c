"""Penstock: flow-control health of JMS brokers (Apache Artemis, Eclipse OpenMQ) for Prometheus."""

__version__ = "0.1.0"
