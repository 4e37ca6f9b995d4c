"""
The configuration: one YAML file, read whole or refused with every problem and its line.

document (YAML → plain values and lines) → model (pydantic: types, defaults, checks) → loading (the two together).

Says what is wanted; does nothing with it.
"""

from penstock.config.loading import load, load_brokers, load_rules
from penstock.config.model import (
    Broker,
    Budgets,
    ClientName,
    Clients,
    Config,
    Discovery,
    DnsTarget,
    Found,
    History,
    Judgement,
    QueueMatch,
    Records,
    Rule,
    RuleMatch,
    Series,
    TemporaryQueues,
    Tls,
    Transport,
    json_schema,
)

__all__ = [
    "Broker",
    "Budgets",
    "ClientName",
    "Clients",
    "Config",
    "Discovery",
    "DnsTarget",
    "Found",
    "History",
    "Judgement",
    "QueueMatch",
    "Records",
    "Rule",
    "RuleMatch",
    "Series",
    "TemporaryQueues",
    "Tls",
    "Transport",
    "json_schema",
    "load",
    "load_brokers",
    "load_rules",
]
