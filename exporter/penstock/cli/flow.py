"""`penstock flow`: the arithmetic of flow control. The sentences are in `texts.jinja`."""

from typing import NotRequired, TypedDict, Unpack

import click

from penstock.cli import options
from penstock.findings import limits
from penstock.findings.limits import ConnectionWindow, ConsumerWindow, CreditWindow
from penstock.insight.text import text_lines


class OpenmqOptions(TypedDict):
    """The options of `penstock flow openmq`; sizes in bytes, times in seconds."""

    limit: int
    threshold: int
    destination_limit: int
    buffered: int | None
    consumers: int
    message_size: int | None
    memory: int | None
    rate: float | None
    round_trip: float | None
    connection_limit: int | None
    connection_count: int
    reserve: NotRequired[float]
    """Messages left when more are asked for; it follows from limit and threshold."""


class ArtemisOptions(TypedDict):
    """The options of `penstock flow artemis`; sizes in bytes."""

    window: int
    message_size: int
    consumers: int
    ring: int | None
    memory: int | None


def parse_rate(text: str) -> float:
    """Messages a second, more than none."""
    rate = float(text)
    if not 0 < rate <= 1e9:  # NaN too
        raise ValueError(f"{text}: give more than 0, at most 1e9")
    return rate


COUNT = click.IntRange(min=1, max=2**31 - 1)
RATE = options.Parsed("rate", parse_rate)


@options.group()
def flow() -> None:
    """Calculate flow control: when delivery stops and resumes, and what to set."""


@options.command(group=flow)
@click.option(
    "--limit", type=click.IntRange(min=-1, max=2**31 - 1), default=limits.DEFAULT_LIMIT
)
@click.option("--threshold", type=int, default=limits.DEFAULT_THRESHOLD)
@click.option(
    "--destination-limit", type=click.IntRange(min=-1, max=2**31 - 1), default=-1
)
@click.option("--buffered", type=click.IntRange(min=0))
@click.option("--consumers", type=COUNT, default=1)
@click.option("--message-size", type=options.SIZE)
@click.option("--memory", type=options.SIZE)
@click.option("--rate", type=RATE)
@click.option("--round-trip", type=options.TIME)
@click.option("--connection-limit", type=COUNT)
@click.option("--connection-count", type=COUNT, default=limits.CONNECTION_COUNT)
@options.form
def openmq(form: str, **given: Unpack[OpenmqOptions]) -> None:
    """Flow control of OpenMQ: consumer limit and threshold, connection limit and count."""
    if given["memory"] is not None and given["message_size"] is None:
        raise click.UsageError("--memory needs --message-size: a limit counts messages")
    if (given["rate"] is None) != (given["round_trip"] is None):
        raise click.UsageError(
            "--rate and --round-trip belong together: how much is taken while a batch is on its way"
        )
    limit = limits.effective_limit(given["limit"], given["destination_limit"])
    numbers: dict[str, object] = {"limit": limit}
    if limit is not None:
        window = ConsumerWindow(limit, limits.resume_level(limit, given["threshold"]))
        given["reserve"] = window.reserve
        numbers |= of_window(window, given)
    if given["connection_limit"] is not None:
        numbers |= of_connection(
            ConnectionWindow(given["connection_limit"], given["connection_count"]),
            limit,
            given,
        )
    options.show(numbers, text_lines("penstock.cli", "flow", numbers, given), form)


@options.command(group=flow)
@click.option(
    "--window",
    type=click.IntRange(min=-1, max=2**31 - 1),
    default=limits.ARTEMIS_WINDOW,
)
@click.option("--message-size", type=options.SIZE, default="1kB")
@click.option("--consumers", type=COUNT, default=1)
@click.option("--ring", type=COUNT)
@click.option("--memory", type=options.SIZE)
@options.form
def artemis(form: str, **given: Unpack[ArtemisOptions]) -> None:
    """Flow control of Artemis: the window of a Core client, against messages, a ring, memory."""
    window = given["window"]
    size = given["message_size"]
    consumers = given["consumers"]
    numbers: dict[str, object] = {"window_bytes": None if window == -1 else window}
    if window != -1:
        credit = CreditWindow(window)
        fitting = credit.messages(size)
        numbers |= {
            "held_messages": fitting,
            "held_by_all_messages": fitting * consumers,
        }
        numbers |= {
            "resume_bytes": credit.returned,
            "batch_messages": credit.batch(size),
        }
    if given["ring"] is not None:
        numbers["window_for_ring_bytes"] = limits.window_for_ring(
            given["ring"], size, consumers
        )
    if given["memory"] is not None:
        numbers["window_for_memory_bytes"] = given["memory"] // consumers
    options.show(numbers, text_lines("penstock.cli", "flow", numbers, given), form)


def of_window(window: ConsumerWindow, given: OpenmqOptions) -> dict[str, object]:
    message_size = given["message_size"]
    memory = given["memory"]
    consumers = given["consumers"]
    rate = given["rate"]
    round_trip = given["round_trip"]
    numbers: dict[str, object] = {"stops_at": window.limit, "resume_at": window.resume}
    numbers |= {
        "consumed_before_resume": window.consumed_before_resume,
        "batch": list(window.batch),
    }
    if given["buffered"] is not None:
        numbers["next_batch"] = window.next_batch(given["buffered"])
    if message_size is not None:
        numbers["memory_bytes"] = window.limit * message_size * consumers
        if memory is not None:
            numbers["limit_for_memory"] = limits.limit_for_memory(
                memory, message_size, consumers
            )
    if rate is not None and round_trip is not None:
        real = window.throughput(rate, round_trip)
        numbers |= {
            "dry_seconds": window.dry_seconds(rate, round_trip),
            "throughput": real,
        }
        numbers["requests_per_second"] = window.requests_per_second(real)
        numbers["least_threshold"] = limits.threshold_for(
            window.limit, rate, round_trip
        )
    return numbers


def of_connection(
    window: ConnectionWindow, force: int | None, given: OpenmqOptions
) -> dict[str, object]:
    numbers: dict[str, object] = {
        "connection_stops_at": window.limit,
        "connection_resume_at": window.resume,
    }
    numbers["connection_most"] = window.most
    if given["message_size"] is not None:
        numbers["connection_memory_bytes"] = window.most * given["message_size"]
    reached = force is None or force * given["consumers"] >= window.limit
    return numbers | {"limit_that_binds": "connection" if reached else "consumer"}
