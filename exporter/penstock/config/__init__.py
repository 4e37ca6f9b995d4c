"""
The configuration: one YAML file, read whole or refused with every problem and its line.

document (YAML → plain values and lines) → model with broker and discovery (pydantic: types, defaults, checks) → loading
(the two together).

Says what is wanted; does nothing with it.
"""

from penstock.config.broker import Broker, QueueMatch, Tls, Transport
from penstock.config.budgets import Budgets
from penstock.config.discovery import Discovery, DnsTarget, FileTargets, Profile, Records, Target
from penstock.config.loading import load, load_rules, load_targets
from penstock.config.model import (
    ClientName,
    Clients,
    Config,
    History,
    Judgement,
    Rule,
    RuleMatch,
    Series,
    TemporaryQueues,
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
    "FileTargets",
    "History",
    "Judgement",
    "Profile",
    "QueueMatch",
    "Records",
    "Rule",
    "RuleMatch",
    "Series",
    "Target",
    "TemporaryQueues",
    "Tls",
    "Transport",
    "json_schema",
    "load",
    "load_rules",
    "load_targets",
]
