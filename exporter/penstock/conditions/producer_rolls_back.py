"""`producer_rolls_back`: producers roll back much of what they send to an address."""

from penstock.conditions.condition import Condition, always, declared
from penstock.conditions.duplicates_dropped import producers
from penstock.conditions.evidence import lost, spell, window
from penstock.observation.losses import ROLLED_BACK

MANY = 0.1
"""Share of what was sent: to roll back and retry now and then is what transactions are for; no one retries each tenth
message without a cause that stays."""

PRODUCER_ROLLS_BACK = Condition(
    rule=lambda poll: spell(poll, ROLLED_BACK, poll.losses.share(ROLLED_BACK) >= MANY),
    evidence=lost(ROLLED_BACK, share=True),
    why=producers,
    notice=always,
    window=window,
    **declared("producer_rolls_back", share=100 * MANY),
)
