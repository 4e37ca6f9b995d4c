"""The rules of a configuration for brokers and queues; needs the agent's dependencies, on the driver of a run alone."""

from collections.abc import Mapping
from pathlib import Path

from penstock.agent.factory import policy_of
from penstock.config import Config, load_rules
from penstock.settings.policy import Policy
from penstock_trends.wanted import Wanted


def policies_of(config: Config) -> Mapping[str, Policy]:
    """The policy of each broker, by its name; that under "" is for brokers which the file does not name."""
    other = Policy(
        "", rules=config.compiled_rules(), constants=config.judgement.compiled()
    )
    return {"": other} | {
        broker.name: policy_of(config, broker) for broker in config.brokers
    }


def wanted_of(rules: Path, flow_target: float) -> Wanted:
    """The settings of operators in a configuration, for the report. Raises ConfigError.

    Args:
        rules: Path of the configuration.
        flow_target: Share of the time in which messages should get on.
    """
    return Wanted(policies_of(load_rules(rules)), flow_target)
