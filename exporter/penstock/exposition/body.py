"""The body of `/metrics`: the published blocks of all brokers, family by family, and the agent's own metrics."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final

from penstock.exposition.catalogue import CATALOGUE
from penstock.exposition.gzip_stream import (
    CODEC,
    HEADER,
    Checksum,
    Codec,
    Fragment,
    trailer,
)
from penstock.exposition.negotiate import FamilyFilter, families
from penstock.exposition.render import BrokerBlocks, Published
from penstock.exposition.syntax import END, Format, header

ALL: Final = FamilyFilter()
PIECE: Final = 256 * 1024
"""The most bytes that are written to the network at once."""


@dataclass(frozen=True, slots=True, eq=False)
class _Assembled:
    """Everything but the agent's own metrics, for one view of the brokers."""

    view: tuple[Published, ...]
    fragments: tuple[Fragment, ...]
    checksum: Checksum


@cache
def _headers(codec: Codec, form: Format) -> Sequence[tuple[str, Fragment]]:
    """Name and header of each family; the same in every body."""
    return [(family.name, codec.compress(header(family, form))) for family in CATALOGUE]


class Exposition:
    """All that `/metrics` shows. Every body keeps the view of the brokers that it began with. self_metrics: gives the
    agent's own families, as whole lines without the end mark; called once per body.
    """

    def __init__(
        self, self_metrics: Callable[[Format], bytes], codec: Codec = CODEC
    ) -> None:
        self._self_metrics = self_metrics
        self._codec = codec
        self._brokers: dict[str, BrokerBlocks] = {}
        self._assembled: dict[Format, _Assembled] = {}

    def set_broker(self, name: str, blocks: BrokerBlocks) -> None:
        """Show what `blocks` publishes, now and later, in place of what the broker of that name showed."""
        self._brokers = {**self._brokers, name: blocks}

    def remove_broker(self, name: str) -> None:
        """Show the broker no more; one that is not shown is no error."""
        self._brokers = {
            other: blocks for other, blocks in self._brokers.items() if other != name
        }

    def chunks(
        self, form: Format, *, gzip: bool, choice: FamilyFilter = ALL
    ) -> Iterator[bytes]:
        """The body as of this call, in pieces of at most `PIECE` bytes; as one gzip member when `gzip`. UnknownFamily
        at once when `choice` names one that there is not.
        """
        own = self._self_metrics(form)
        if choice:
            of_agent = families(own)
            chosen = choice.of(chain((family.name for family in CATALOGUE), of_agent))
            own = b"".join(text for name, text in of_agent.items() if name in chosen)
            brokers = self._assemble(form, self._view(), chosen)
        else:
            brokers = self._current(form)
        own += END[form]
        if not gzip:
            return _pieces(chain(map(self._codec.inflate, brokers.fragments), (own,)))
        last = self._codec.compress(own)
        end = trailer(self._codec.checksum((brokers.checksum, last.checksum)))
        return _pieces(
            chain(
                (HEADER,), (part.data for part in brokers.fragments), (last.data, end)
            )
        )

    def _current(self, form: Format) -> _Assembled:
        view = self._view()
        assembled = self._assembled.get(form)
        if assembled is None or assembled.view != view:
            assembled = self._assembled[form] = self._assemble(form, view)
        return assembled

    def _view(self) -> tuple[Published, ...]:
        return tuple(blocks.published for blocks in self._brokers.values())

    def _assemble(
        self,
        form: Format,
        view: tuple[Published, ...],
        chosen: frozenset[str] | None = None,
    ) -> _Assembled:
        fragments: list[Fragment] = []
        for name, head in _headers(self._codec, form):
            if chosen is not None and name not in chosen:
                continue
            sampled = [
                samples
                for published in view
                if (samples := published.families.get(name))
            ]
            if sampled:
                fragments.append(head)
                fragments.extend(
                    chain.from_iterable(samples.fragments for samples in sampled)
                )
        checksum = self._codec.checksum(fragment.checksum for fragment in fragments)
        return _Assembled(view, tuple(fragments), checksum)


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """`parts` cut and joined: many small ones are one piece, no piece is above `PIECE`."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        if size + len(part) > PIECE:
            if waiting:
                yield b"".join(waiting)
            waiting = []
            size = 0
            whole = len(part) - len(part) % PIECE
            for start in range(0, whole, PIECE):
                yield part[start : start + PIECE]
            part = part[whole:]  # noqa: PLW2901 - the rest waits for the next
        waiting.append(part)
        size += len(part)
    if size:
        yield b"".join(waiting)
