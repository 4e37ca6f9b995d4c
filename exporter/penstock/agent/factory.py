"""From the configuration of a broker to a reader of it and to what the operator wants of it."""

import re
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypedDict

from penstock.brokers.clients import NameMap
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.registry import KINDS
from penstock.config import Broker, Config, TemporaryQueues
from penstock.config import Transport as Via
from penstock.config.values import origin_of_url
from penstock.core.errors import ConfigError
from penstock.settings.policy import Limits, Policy
from penstock.transports.jmx import JmxTarget, JmxTransport
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock.transports.portmapper import WithPortMapper
from penstock.transports.recording import Recorder, RecordingFile, RecordingTransport
from penstock.transports.tls import TlsFiles
from penstock.transports.transport import Hint, Reader, Transport, WithMaskedErrors


class Reached(TypedDict):
    """The arguments that every `Target` has."""

    url: str
    username: str | None
    password: Callable[[], str]
    max_answer_bytes: int
    hint: Hint


def open_reader(
    config: Config,
    broker: Broker,
    executor: Executor | None = None,
    record: RecordingFile | None = None,
) -> Reader:
    """Its errors show nothing of the environment. record: gets every raw answer too. Raises ConfigError."""
    try:
        transport: Transport = WithMaskedErrors(open_transport(broker), broker.mask)
    except ConfigError as error:
        raise ConfigError(*(broker.mask(str(line)) for line in error.args)) from None
    if record is not None:
        transport = Recorder(transport, record, broker.kind, broker.name)
    budgets = config.budgets_of(broker).rows()
    options = ReaderOptions(broker.page_rows, name_map(config), broker.name, budgets)
    return KINDS[broker.kind].reader(transport, options, executor)


def open_transport(broker: Broker) -> Transport:
    if broker.recording is not None:
        return RecordingTransport(broker.recording)
    inner: Transport = (
        JmxTransport(jmx_target(broker))
        if broker.transport is Via.JMX
        else jolokia(broker)
    )
    return (
        WithPortMapper(inner, *broker.port_mapper_at())
        if KINDS[broker.kind].port_mapper
        else inner
    )


def jmx_target(broker: Broker) -> JmxTarget:
    return JmxTarget(
        **reached(broker),
        java=broker.java,
        jars=(broker.imqjmx_jar,) if broker.imqjmx_jar else (),
    )


def jolokia(broker: Broker) -> JolokiaTransport:
    target = JolokiaTarget(
        **reached(broker),
        origin=origin_of(broker),
        tls=tls_files(broker),
        reuse_connections=KINDS[broker.kind].reuse_connections,
    )
    return JolokiaTransport(target)


def tls_files(broker: Broker) -> TlsFiles:
    return TlsFiles(**dict(broker.tls))


def origin_of(broker: Broker) -> str | None:
    """As configured, else the scheme and host of the URL where the kind of broker asks for one."""
    if broker.origin is None and KINDS[broker.kind].checks_origin:
        return origin_of_url(broker.url)
    return broker.origin


def reached(broker: Broker) -> Reached:
    """URL and account for a broker, whatever the transport."""
    return {
        "url": broker.url,
        "username": broker.username,
        "password": LastPassword(broker),
        "max_answer_bytes": broker.max_answer,
        "hint": KINDS[broker.kind].hint,
    }


class LastPassword:
    """The password of a broker as its file has it now; while that cannot be read, as when it is replaced, as before."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._last: str | None = None

    def __call__(self) -> str:
        """ConfigError where the file could never be read; empty where no password is configured."""
        try:
            self._last = self._broker.password() or ""
        except ConfigError:
            if self._last is None:
                raise
        return self._last


def name_map(config: Config) -> NameMap:
    return tuple(
        (re.compile(entry.match), entry.replace) for entry in config.clients.map
    )


def policy_of(config: Config, broker: Broker) -> Policy:
    budgets = config.budgets_of(broker)
    return Policy(
        broker=broker.name,
        rules=config.compiled_rules(),
        selection=broker.selection(),
        limits=Limits(
            **dict(config.series),
            series=budgets.series,
            label_length=budgets.label_length,
        ),
        constants=config.judgement.compiled(),
        calendar=config.normal.calendar(broker.timezone),
        profiles=str(config.normal.profiles or ""),
        mirror_of=broker.mirror_of or "",
        sum_temporary=config.temporary_queues is TemporaryQueues.SUMMED,
    )
