"""`penstock replay`: evaluate the rules on a recording."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import click

from penstock.agent.factory import name_map, policy_of
from penstock.assessment.assess import State, advance
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.registry import KINDS
from penstock.cli import options
from penstock.config import Config, load
from penstock.core.errors import ConfigError, PenstockError, SourceError
from penstock.insight.events import Event, StatusSummary, changes, summarize
from penstock.series.last_good import LastGood, keep_last_good, keep_seconds
from penstock.settings.policy import Policy
from penstock.transports.recording import RecordingTransport
from penstock.tui.lines import say

TIMEOUT = 3600.0
"""No deadline: a recording takes as long as it takes to read."""


@options.command()
@click.argument("file", type=options.FILE)
@click.option("--config.file", "config_file", type=options.PATH)
@click.option("--broker", "name")
@options.form_of_lines
async def replay(
    file: Path, config_file: Path | None, name: str | None, form: str
) -> int:
    """Evaluate the rules on a recording, and list what changed.

    Edit rules or constants, replay, and see which conditions would have been raised. Times are those of the recording.
    Exit status 1 when the file is cut off or damaged: the polls before that are evaluated.
    """
    config = None if config_file is None else load(config_file)
    transport = RecordingTransport(file)
    policy, wanted = as_configured(config, name or transport.header.broker)
    polls = changes_shown = 0
    async for events in replayed_events(transport, policy, wanted):
        polls += 1
        changes_shown += len(events)
        for event in events:
            options.show_event(event, form)
    say(f"{polls} polls, {changes_shown} changes", err=True)
    if transport.damage:
        raise PenstockError(transport.damage)
    return 0


def as_configured(config: Config | None, name: str) -> tuple[Policy, ReaderOptions]:
    """What is said of a broker of this name; one that the configuration does not know has the rules for any."""
    if config is None:
        return Policy(name), ReaderOptions()
    for broker in config.brokers:
        if broker.name == name:
            budgets = config.budgets_of(broker).rows()
            return policy_of(config, broker), ReaderOptions(
                broker.page_rows, name_map(config), budgets=budgets
            )
    policy = Policy(
        name, rules=config.compiled_rules(), constants=config.judgement.compiled()
    )
    return policy, ReaderOptions(names=name_map(config))


async def replayed_events(
    transport: RecordingTransport, policy: Policy, wanted: ReaderOptions
) -> AsyncIterator[list[Event]]:
    """What changed with each poll of the recording."""
    kind = KINDS.get(transport.header.kind)
    if kind is None:
        raise ConfigError(
            f"a recording of {transport.header.kind!r}, which this version does not know"
        )
    reader = kind.reader(transport, replace(wanted, name=policy.broker), None)
    state = State()
    kept = LastGood()
    summary = StatusSummary(policy.broker)
    try:
        while True:
            error = ""
            read_snapshot = None
            try:
                snapshot = await reader.poll(TIMEOUT)
            except SourceError as problem:
                error = str(problem)
            else:
                interval = state.judgement.seen.times.interval
                kept, snapshot = keep_last_good(kept, snapshot, keep_seconds(interval))
                state = advance(state, snapshot, policy)
                read_snapshot = snapshot if snapshot.broker else None
            if transport.ended:
                return
            before = summary
            summary = summarize(
                before, state, read_snapshot, up=read_snapshot is not None, error=error
            )
            yield list(changes(before, summary, transport.last_stamp))
    finally:
        await reader.close()
