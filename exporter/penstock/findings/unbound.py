"""Addresses that queues send messages to, and that have no queue."""

import numpy as np

from penstock.core.windows import Mask
from penstock.findings.context import FindingContext
from penstock.findings.finding import Finding, FindingRule, Found


def unbound(rule: FindingRule, context: FindingContext, target: str, made: Mask, sent: str) -> Found:
    """
    target: the field with where a queue sends to, empty where nowhere. made: the broker makes a queue there when it
    is needed. sent: the column that counts what was sent.
    """
    index = context.queues.index
    to = index.column(f"code of {target}", lambda row: code(getattr(row, target)))
    own = index.column("code of address", lambda row: code(row.address))
    # Thousands of queues share a few targets: their texts are compared as numbers, which the index keeps.
    at = np.flatnonzero((to > 0) & context.applications & ~made)
    at = at[~np.isin(to[at], own)]
    _, first, shared = np.unique(to[at], return_index=True, return_inverse=True)
    for n in np.argsort(first).tolist():
        name, sources = getattr(index.rows[at[first[n]]], target), at[shared == n]
        evidence = {"sources": float(len(sources)), sent: float(np.nansum(context.queues[sent][sources]))}
        yield Finding(rule, name, name, evidence=evidence)


def code(text: str) -> float:
    """A number for a text, by which columns can be compared; 0 for none."""
    return float(hash(text) & (2**52 - 1)) if text else 0.0
