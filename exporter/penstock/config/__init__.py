"""The configuration: one YAML file, read whole or refused with every problem and its line.

document (YAML → plain values and lines) → model with broker and discovery (pydantic: types, defaults, checks) → loading
(the two together).

Says what is wanted; does nothing with it.
"""

from penstock.config.broker import Broker, Transport
from penstock.config.discovery import DnsTarget, Profile, Records, Target
from penstock.config.loading import load, load_rules, load_targets
from penstock.config.model import Config, History, TemporaryQueues, json_schema

__all__ = [
    "Broker", "Config", "DnsTarget", "History", "Profile", "Records", "Target", "TemporaryQueues", "Transport",
    "json_schema", "load", "load_rules", "load_targets",
]  # fmt: skip
