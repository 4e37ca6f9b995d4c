"""From the configuration of a broker to a reader of it and to what the operator wants of it."""

import re
from concurrent.futures import Executor
from pathlib import Path

from penstock.config import Broker, Config, TemporaryQueues
from penstock.config.model import Transport as Via
from penstock.flow.policy import Limits, Policy
from penstock.model import BrokerKind
from penstock.sources import openmq
from penstock.sources.artemis import ArtemisReader, ReaderOptions
from penstock.sources.clients import NameMap
from penstock.sources.jmx import JmxTarget, JmxTransport
from penstock.sources.jmxquery import JmxQueryTransport
from penstock.sources.jolokia import ARTEMIS, OPENMQ, JolokiaTarget, JolokiaTransport, Tls
from penstock.sources.portmapper import WithPortMapper
from penstock.sources.recording import Recorder, RecordingTransport
from penstock.sources.transport import Reader, Transport

HINTS = {BrokerKind.ARTEMIS: ARTEMIS, BrokerKind.OPENMQ: OPENMQ}


def open_reader(config: Config, broker: Broker, executor: Executor | None = None, record: Path | None = None) -> Reader:
    """A reader of `broker`; with `record` every raw answer is also written to that file. Raises ConfigError."""
    transport = open_transport(broker)
    if record is not None:
        transport = Recorder(transport, record, broker.kind.value, broker.name)
    options = ReaderOptions(broker.page_rows, name_map(config))
    return reader_over(transport, broker.kind, broker.name, options, executor)


def reader_over(
    transport: Transport, kind: BrokerKind, name: str, options: ReaderOptions, executor: Executor | None = None
) -> Reader:
    """A reader of a broker of this kind and name over `transport`."""
    if kind is BrokerKind.OPENMQ:
        return openmq.OpenMQReader(transport, openmq.ReaderOptions(name, options.names), executor)
    return ArtemisReader(transport, options, executor)


def open_transport(broker: Broker) -> Transport:
    if broker.recording is not None:
        return RecordingTransport(broker.recording)
    inner: Transport
    match broker.transport:
        case Via.JMX:
            inner = JmxTransport(jmx_target(broker))
        case Via.JMXQUERY:
            inner = JmxQueryTransport(jmx_target(broker))
        case _:
            inner = jolokia(broker, reuse_connections=broker.kind is not BrokerKind.OPENMQ)
    if broker.kind is BrokerKind.OPENMQ:
        return WithPortMapper(inner, *broker.port_mapper_at())
    return inner


def jmx_target(broker: Broker) -> JmxTarget:
    return JmxTarget(
        url=broker.url,
        username=broker.username,
        password=lambda: broker.password() or "",
        java=broker.java,
        jars=() if broker.imqjmx_jar is None else (broker.imqjmx_jar,),
        max_answer_bytes=broker.max_answer,
    )


def jolokia(broker: Broker, *, reuse_connections: bool = True) -> JolokiaTransport:
    """The JVM agent's web server answers 40 ms later on a connection that is kept; Artemis' does not."""
    tls = broker.tls
    return JolokiaTransport(
        JolokiaTarget(
            url=broker.url,
            username=broker.username,
            password=lambda: broker.password() or "",
            origin=broker.origin,
            tls=Tls(
                ca_file=_text(tls.ca_file),
                cert_file=_text(tls.cert_file),
                key_file=_text(tls.key_file),
                server_name=tls.server_name,
                insecure=tls.insecure,
            ),
            max_answer_bytes=broker.max_answer,
            reuse_connections=reuse_connections,
            hint=HINTS[broker.kind],
        )
    )


def name_map(config: Config) -> NameMap:
    return tuple((re.compile(entry.match), entry.replace) for entry in config.clients.map)


def policy_of(config: Config, broker: Broker) -> Policy:
    series = config.series
    return Policy(
        broker=broker.name,
        rules=config.compiled_rules(),
        selection=broker.selection(),
        limits=Limits(
            consumers_per_broker=series.consumers_per_broker,
            consumers_per_queue=series.consumers_per_queue,
            connections=series.connections,
            clients=series.clients,
        ),
        constants=config.judgement.compiled(),
        sum_temporary=config.temporary_queues is TemporaryQueues.SUMMED,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
