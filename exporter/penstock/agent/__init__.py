"""The agent: one poll loop a broker, from the reader over the assessment to what `/metrics` shows."""

from penstock.agent.agent import Agent
from penstock.agent.watch import Watch

__all__ = ["Agent", "Watch"]
