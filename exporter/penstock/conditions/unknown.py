"""`unknown`: nothing can be said of a queue or a client. Looked up on request, see `insight.unknown`."""

from penstock.conditions.condition import Condition, Scope, always
from penstock.learned.warm_up import POLLS

UNKNOWN = Condition(
    name="unknown",
    scope=Scope.QUEUE,
    title="Nothing can be said yet.",
    when=f"what the rules need was not read, or was seen at fewer than {POLLS} polls, or queues of this kind are not"
    " judged: temporary, internal and retroactive ones and those of links",
    quiet_on="everything that is judged, also for {verdicts} after a poll that failed: until then the conditions before"
    " it stay. A condition that the broker's own times prove is raised at the second poll",
    causes={},
    action="wait for more polls; if it stays, see what is not known of the queue, and `penstock check`",
    notice=always,
    may_be_critical=False,
)
