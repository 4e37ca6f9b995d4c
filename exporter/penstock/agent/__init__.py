"""The agent: which brokers are polled, one poll loop each, what is shown, kept over a restart and looked up."""

from penstock.agent.assessor import Assessor, PollResult, Result
from penstock.agent.poller import Poller
from penstock.agent.supervisor import Agent

__all__ = ["Agent", "Assessor", "PollResult", "Poller", "Result"]
