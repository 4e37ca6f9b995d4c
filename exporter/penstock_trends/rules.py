"""The rules of a configuration for brokers and queues; needs the agent's dependencies, on the driver of a run alone."""

from collections.abc import Mapping
from pathlib import Path

from penstock.agent.factory import policy_of
from penstock.config import Config, load_rules
from penstock.settings.policy import Policy
from penstock_trends.wanted import Wanted


def policies_of(config: Config) -> Mapping[str, Policy]:
    """By broker; "" for those that the file does not name."""
    other = Policy(
        "", rules=config.compiled_rules(), constants=config.judgement.compiled()
    )
    return {"": other} | {
        broker.name: policy_of(config, broker) for broker in config.brokers
    }


def wanted_of(rules: Path, flow_target: float) -> Wanted:
    """rules: a configuration. flow_target: a share. Raises ConfigError."""
    return Wanted(policies_of(load_rules(rules)), flow_target)
