"""`penstock flow`: the arithmetic of flow control."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from penstock.cli import options
from penstock.findings import limits
from penstock.findings.limits import ConnectionWindow, ConsumerWindow, CreditWindow

FlowLine = tuple[str, Any, str]
"""One result: its name and value as JSON has them, and as a sentence with the arithmetic."""


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


@options.command(of=flow)
@click.option("--limit", type=click.IntRange(min=-1, max=2**31 - 1), default=limits.DEFAULT_LIMIT)
@click.option("--threshold", type=int, default=limits.DEFAULT_THRESHOLD)
@click.option("--destination-limit", type=click.IntRange(min=-1, max=2**31 - 1), default=-1)
@click.option("--buffered", type=click.IntRange(min=0))
@click.option("--consumers", type=COUNT, default=1)
@click.option("--message-size", type=options.SIZE)
@click.option("--memory", type=options.SIZE)
@click.option("--rate", type=RATE)
@click.option("--round-trip", type=options.TIME)
@click.option("--connection-limit", type=COUNT)
@click.option("--connection-count", type=COUNT, default=limits.CONNECTION_COUNT)
@options.form
def openmq(  # noqa: PLR0913, PLR0917 - the command's options
    limit: int, threshold: int, destination_limit: int, buffered: int | None, consumers: int,
    message_size: int | None, memory: int | None, rate: float | None, round_trip: float | None,
    connection_limit: int | None, connection_count: int, form: str,
) -> None:  # fmt: skip
    """Flow control of OpenMQ: consumer limit and threshold, connection limit and count."""
    if memory is not None and message_size is None:
        raise click.UsageError("--memory needs --message-size: a limit counts messages")
    if (rate is None) != (round_trip is None):
        raise click.UsageError("--rate and --round-trip belong together: how much is taken while a batch is on its way")
    force = limits.effective_limit(limit, destination_limit)
    lines = list(in_force(force, limit, destination_limit))
    if force is not None:
        window = ConsumerWindow(force, limits.resume_level(force, threshold))
        lines += consumer_lines(window, threshold, buffered)
        if message_size is not None:
            lines += memory_lines(window, message_size, consumers, memory)
        if rate is not None and round_trip is not None:
            lines += rate_lines(window, rate, round_trip)
    if connection_limit is not None:
        connection = ConnectionWindow(connection_limit, connection_count)
        lines += connection_lines(connection, force, consumers, message_size)
    show(lines, form)


@options.command(of=flow)
@click.option("--window", type=click.IntRange(min=-1, max=2**31 - 1), default=limits.ARTEMIS_WINDOW)
@click.option("--message-size", type=options.SIZE, default="1kB")
@click.option("--consumers", type=COUNT, default=1)
@click.option("--ring", type=COUNT)
@click.option("--memory", type=options.SIZE)
@options.form
def artemis(window: int, message_size: int, consumers: int, ring: int | None, memory: int | None, form: str) -> None:
    """Flow control of Artemis: the window of a Core client, against messages, a ring, memory."""
    show([*window_lines(window, message_size, consumers), *bounds(message_size, consumers, ring, memory)], form)


# --- OpenMQ


def in_force(force: int | None, client: int, destination: int) -> Iterator[FlowLine]:
    own = "none" if client <= 0 else f"{client:,}"
    theirs = "not limited by the destination" if destination == -1 else f"of the destination {destination:,}"
    said = f"of the client {own}, {theirs}"
    if force is None:
        yield "limit", None, f"none: {said}; the client takes all that there is"
    else:
        yield "limit", force, f"{messages(force)} in force: {said}"


def consumer_lines(window: ConsumerWindow, threshold: int, buffered: int | None) -> Iterator[FlowLine]:
    least, most = window.batch
    where = "in the client that the application has not been handed"
    yield "stops_at", window.limit, f"at {messages(window.limit)} {where}"
    share = f"{threshold} % of {window.limit:,}"
    below = ", always below the limit" if window.resume == window.limit - 1 else ""
    yield "resume_at", window.resume, f"at {window.resume:,} or fewer: {share}{below}"
    consumed, apart = window.consumed_before_resume, f"{window.limit:,} - {window.resume:,}"
    yield "consumed_before_resume", consumed, f"{messages(consumed)} of a full buffer before it asks again: {apart}"
    yield "batch", [least, most], f"{least:,} … {most:,} messages: {window.limit:,} - what is buffered"
    if buffered is not None:
        batch = window.next_batch(buffered)
        why = f"{window.limit:,} - {buffered:,}" if batch else f"{buffered:,} is above the resume level"
        yield "next_batch", batch, f"{messages(batch)} with {buffered:,} buffered: {why}"


def memory_lines(window: ConsumerWindow, size: int, consumers: int, memory: int | None) -> Iterator[FlowLine]:
    held = window.limit * size * consumers
    product = f"{counted(consumers, 'consumer')} x {window.limit:,} messages x {size:,} B"
    yield "memory_bytes", held, f"{in_bytes(held)} at most: {product}"
    if memory is None:
        return
    limit = limits.limit_for_memory(memory, size, consumers)
    split = f"{memory:,} B / ({consumers:,} x {size:,} B)"
    told = messages(limit) if limit else "none fits"
    yield "limit_for_memory", limit, f"{told} for {in_bytes(memory)}: {split}"


def rate_lines(window: ConsumerWindow, rate: float, round_trip: float) -> Iterator[FlowLine]:
    lasts = window.reserve / rate
    dry, real = window.dry_seconds(rate, round_trip), window.throughput(rate, round_trip)
    buffer = f"{window.reserve:,.4g} messages last {lasts:.3g} s, the next batch takes {round_trip:.3g} s"
    told = f"{dry:.3g} s in each batch, {real:,.4g} messages a second remain" if dry else "no"
    yield "dry_seconds", dry, f"{told}: {buffer}"
    yield "throughput", real, f"{real:,.4g} of {rate:,.4g} messages a second"
    asked = window.requests_per_second(real)
    yield "requests_per_second", asked, f"{asked:.3g} a second: {real:,.4g} / {window.consumed_before_resume:,}"
    least = limits.threshold_for(window.limit, rate, round_trip)
    needed = f"{rate:,.4g}/s x {round_trip:.3g} s = {rate * round_trip:,.4g} messages"
    advice = f"{least} % is enough: {needed}" if least is not None else f"none is enough, raise the limit: {needed}"
    yield "least_threshold", least, advice


def connection_lines(
    window: ConnectionWindow, limit: int | None, consumers: int, size: int | None
) -> Iterator[FlowLine]:
    yield "connection_stops_at", window.limit, f"at {messages(window.limit)} of all its consumers together"
    yield "connection_resume_at", window.resume, f"at {window.resume:,} or fewer: strictly below the limit"
    most = f"{window.limit:,} - 1 + {window.count:,}"
    yield "connection_most", window.most, f"{messages(window.most)}: it stops only after whole counts: {most}"
    if size is not None:
        yield "connection_memory_bytes", window.most * size, f"{in_bytes(window.most * size)} at most"
    if limit is not None and (together := limit * consumers) < window.limit:
        told = f"the consumers': {consumers:,} x {limit:,} = {together:,} messages never reach the connection's limit"
        yield "limit_that_binds", "consumer", told
    else:
        told = "the connection's: one consumer that does not read can stop all others of its connection"
        yield "limit_that_binds", "connection", told


# --- Artemis


def window_lines(window: int, size: int, consumers: int) -> Iterator[FlowLine]:
    if window == -1:
        yield "window_bytes", None, "none: the client takes all that there is"
        return
    credit = CreditWindow(window)
    held = credit.messages(size)
    yield "window_bytes", window, f"{window:,} B a consumer"
    yield "held_messages", held, f"{messages(held)} of {size:,} B in the hands of a consumer, at most"
    yield "held_by_all_messages", held * consumers, f"{messages(held * consumers)}: {counted(consumers, 'consumer')}"
    yield "resume_bytes", credit.returned, f"after each {credit.returned:,} B taken: half of the window"
    yield "batch_messages", credit.batch(size), f"about {messages(credit.batch(size))} of {size:,} B"


def bounds(size: int, consumers: int, ring: int | None, memory: int | None) -> Iterator[FlowLine]:
    if ring is not None:
        window = limits.window_for_ring(ring, size, consumers)
        share = f"{ring:,} messages x {size:,} B / {consumers:,}"
        yield "window_for_ring_bytes", window, f"{window:,} B at most keep the ring's promise: {share}"
    if memory is not None:
        window = memory // consumers
        yield "window_for_memory_bytes", window, f"{window:,} B: {memory:,} B / {consumers:,}"


# --- as text


def show(lines: Sequence[FlowLine], form: str) -> None:
    width = max(len(name) for name, *_ in lines)
    texts = (f"{name.replace('_', ' '):{width}}  {text}" for name, _, text in lines)
    options.show({name: value for name, value, _ in lines}, texts, form)


def messages(count: int) -> str:
    return counted(count, "message")


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def in_bytes(size: float) -> str:
    """With the unit that an operator thinks in."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.3g} {unit}"
    return f"{size:,.0f} B"
