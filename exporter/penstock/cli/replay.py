"""`penstock replay`: judge a recording anew."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import click
import msgspec

from penstock.agent.opening import name_map, policy_of, reader_over
from penstock.cli import logs, options
from penstock.cli.events import text
from penstock.cli.examples import examples
from penstock.config import Config, load
from penstock.errors import ConfigError, SourceError, Unreachable
from penstock.flow.assess import State, assess
from penstock.flow.events import Event, Picture, changes, pictured
from penstock.flow.policy import Policy
from penstock.flow.retention import Kept, keep_seconds, retain
from penstock.model import BrokerKind
from penstock.sources.artemis import ReaderOptions
from penstock.sources.recording import RecordingTransport
from penstock.sources.transport import Answer, Request

TIMEOUT = 3600.0
"""No deadline: a recording takes as long as it takes to read."""


@click.command(
    epilog=examples(
        "penstock replay demo.jsonl.gz", "penstock replay demo.jsonl.gz --config.file penstock.yaml --format json"
    )
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path),
    help="Its rules and constants; default: none and the built-in ones.",
)
@click.option("--broker", "name", help="As which broker of the configuration; default: the name in the recording.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object a line.",
)
@options.command
async def replay(file: Path, config_file: Path | None, name: str | None, form: str) -> int:
    """
    Judge a recording of `penstock record` and tell what changed, with the times of the recording.

    Edit rules or constants, replay, and see what would have been told.
    """
    logs.set_up("error", "logfmt")
    config = None if config_file is None else load(config_file)
    transport = Recorded(file)
    policy, wanted = as_configured(config, name or transport.header.broker)
    polls = told = 0
    async for events in judged(transport, policy, wanted):
        polls += 1
        told += len(events)
        for event in events:
            click.echo(msgspec.json.encode(event).decode() if form == "json" else text(msgspec.to_builtins(event)))
    click.echo(f"{polls} polls, {told} changes", err=True)
    return 0


def as_configured(config: Config | None, name: str) -> tuple[Policy, ReaderOptions]:
    """What is said of a broker of this name; one that the configuration does not know has the rules for any."""
    if config is None:
        return Policy(name), ReaderOptions()
    for broker in config.brokers:
        if broker.name == name:
            return policy_of(config, broker), ReaderOptions(broker.page_rows, name_map(config))
    policy = Policy(name, rules=config.compiled_rules(), constants=config.judgement.compiled())
    return policy, ReaderOptions(names=name_map(config))


class Recorded(RecordingTransport):
    """A recording that knows when it has come to its end, and what time it is in it."""

    ended = False
    last_stamp = 0.0

    async def begin_poll(self) -> None:
        try:
            await super().begin_poll()
        except Unreachable:
            self.ended = True
            raise

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        answer = await super().ask(requests, timeout)
        self.last_stamp = answer.stamp
        return answer


async def judged(transport: Recorded, policy: Policy, wanted: ReaderOptions) -> AsyncIterator[list[Event]]:
    """What changed with each poll of the recording."""
    try:
        kind = BrokerKind(transport.header.kind)
    except ValueError:
        raise ConfigError(f"a recording of {transport.header.kind!r}, which this version does not know") from None
    reader = reader_over(transport, kind, policy.broker, wanted)
    state, kept, picture = State(), Kept(), Picture(policy.broker)
    try:
        while True:
            error, about = "", None
            try:
                snapshot = await reader.poll(TIMEOUT)
            except SourceError as problem:
                error = str(problem)
            else:
                interval = state.judgement.seen.times.interval
                kept, snapshot = retain(kept, snapshot, keep_seconds(interval))
                state, _ = assess(state, snapshot, policy)
                about = snapshot.broker
            if transport.ended:
                return
            before = picture
            picture = pictured(before, state, about, up=about is not None, error=error)
            yield list(changes(before, picture, transport.last_stamp))
    finally:
        await reader.close()
