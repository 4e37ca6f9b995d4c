"""The register of situations: how each is played, and what is true of it."""

from collections.abc import Callable
from dataclasses import dataclass

from flowbench.scene import Place, Scene
from penstock.brokers import cadence

COLD = 40.0
TREND = 60.0
INTERVAL = 3.0
SECONDS = 140.0
"""Patience before anything is learned, window of trends, seconds between polls, and for which all play."""
PROOF = 15.0
SETTINGS_AGE = 20.0
"""Seconds after which settings are read again: they prove something only once they were read since the fault began."""


def read_settings_often() -> None:
    cadence.SETTINGS_AGE = SETTINGS_AGE


@dataclass(frozen=True, slots=True)
class Truth:
    """proves: what has to be proven; the others of `true` have to be possible at least."""

    condition: str
    true: frozenset[str]
    proves: frozenset[str]
    place: Place = Place.FAULTS


Play = Callable[[Scene], None]
TRUTHS: dict[str, Truth] = {}
PLAYS: dict[str, Play] = {}


def situation(
    condition: str,
    *true: str,
    proves: tuple[str, ...] = (),
    place: Place = Place.FAULTS,
) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        TRUTHS[name], PLAYS[name] = (
            Truth(condition, frozenset(true), frozenset(proves), place),
            play,
        )
        return play

    return register


def sends(scene: Scene, queue: str, rate: int = 20, size: int = 200) -> None:
    scene.jms(queue, mode="produce", rate=rate, size=size)


def begins(scene: Scene, queue: str, rate: int = 20, size: int = 200) -> None:
    """Messages come from now on."""
    sends(scene, queue, rate, size)
    scene.begin()
