"""`unknown`: nothing can be said of a queue or a client. Looked up on request, see `insight.knowledge`."""

from penstock.conditions.condition import Condition, always, declared
from penstock.learned.warm_up import POLLS

UNKNOWN = Condition(notice=always, **declared("unknown", polls=POLLS))
