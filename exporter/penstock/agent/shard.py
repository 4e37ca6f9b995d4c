"""Which of several agents watches a broker: exactly one does, and a change of their number moves few brokers."""

import re
from dataclasses import dataclass
from hashlib import blake2b

from penstock.core.errors import ConfigError

MOST = 1000


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` agents; `ordinal` counts from 0."""

    ordinal: int
    count: int

    def owns(self, broker: str) -> bool:
        """Rendezvous hashing: of all ordinals, the one that weighs most with this name."""
        weight = {
            n: blake2b(f"{n}:{broker}".encode(), digest_size=8).digest()
            for n in range(self.count)
        }
        return max(weight, key=weight.__getitem__) == self.ordinal


def parse_shard(text: str) -> Shard:
    """`2/3`, or `penstock-2/3` with the pod's name of a StatefulSet. ConfigError says what is allowed."""
    match = re.fullmatch(r"(?:.+-)?([0-9]{1,4})/([0-9]{1,4})", text)
    if not match or not int(match[1]) < int(match[2]) <= MOST:
        raise ConfigError(
            f"--shard {text!r} is none; write ORDINAL/COUNT such as 0/3, or POD-ORDINAL/COUNT"
        )
    return Shard(int(match[1]), int(match[2]))
