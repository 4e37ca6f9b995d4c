"""What several commands share: flags, and how errors reach the operator."""

import asyncio
import functools
import re
import sys
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC
from pathlib import Path
from typing import Any

import click

from penstock.cli.client import DEFAULT_URL
from penstock.cli.main import TEXTS, CommandGroup, examples
from penstock.config import Broker, Config
from penstock.config.values import parse_duration, parse_size
from penstock.core.errors import EXTRAS, ConfigError, PenstockError, how_to_install
from penstock.insight.events import Event
from penstock.insight.text import event_line
from penstock.tui.lines import say, say_json

Function = Callable[..., Coroutine[object, None, int] | None]


class Parsed(click.ParamType[float]):
    """What `parse` returns for a text, or the text of its ValueError."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self,
        value: str | float,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _size(text: str) -> int:
    size = parse_size(int(text) if re.fullmatch(r"-?\d+", text) else text)
    if size <= 0:
        raise ValueError(f"{text}: give more than nothing")
    return size


SIZE = Parsed("size", _size)
"""Bytes, more than none; written with a unit or without."""
TIME = Parsed("time", parse_duration)
"""Seconds, of `20ms`."""


class Timestamp(click.DateTime):
    """Seconds since 1970 of a day or minute (UTC)."""

    def convert(
        self,
        value: str | float,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        return super().convert(value, param, ctx).replace(tzinfo=UTC).timestamp()


DAY = Timestamp(["%Y-%m-%d", "%Y-%m-%dT%H:%M"])
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)


def _shared(text: str, *names: str, **how: Any) -> Callable[[Function], Function]:
    """An option of several commands. text: the name of its help."""
    return click.option(*names, help=TEXTS["shared"][text], **how)


config_file = _shared(
    "config_file",
    "--config.file",
    "config_file",
    type=PATH,
    default=Path("penstock.yaml"),
)
in_place_of_agent = _shared(
    "in_place_of_agent", "--config.file", "config_file", type=PATH
)
web_config_file = _shared(
    "web_config_file", "--web.config.file", "web_config_file", type=PATH
)
agent_url = _shared(
    "agent_url",
    "--url",
    "--agent",
    "url",
    default=DEFAULT_URL,
    envvar="PENSTOCK_URL",
    show_envvar=True,
)
http_config_file = _shared(
    "http_config_file",
    "--http.config.file",
    "http_config_file",
    type=PATH,
    envvar="PENSTOCK_HTTP_CONFIG_FILE",
    show_envvar=True,
)
form = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text"
)
form_of_lines = _shared(
    "form_of_lines",
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
)
history_url = _shared("history_url", "--history", required=True)
spark_master = _shared("spark_master", "--master")


def show(
    value: object, lines: Iterable[str], form: str, *, indent: int | None = 2
) -> None:
    """The value as JSON, or these lines, as `form` says."""
    if form == "json":
        say_json(value, indent=indent)
    else:
        say(*lines)


def show_event(event: Event, form: str) -> None:
    """In one line, as `form_of_lines` says."""
    show(event, [event_line(event)], form, indent=None)


group = functools.partial(click.group, cls=CommandGroup)
"""As click's."""


def command(
    *lines: str, group: click.Group | None = None, name: str | None = None
) -> Callable[[Function], click.Command]:
    """A command, of Penstock itself where no group is given, by the function's name unless given. lines: examples.

    Examples, and the help of options, that are not given are those of `texts.toml`.
    """

    def made(function: Function) -> click.Command:
        made_command = (click.command if group is None else group.command)(name)(
            _ending(function)
        )
        texts = TEXTS.get(
            f"{group.name} {made_command.name}" if group else str(made_command.name), {}
        )
        made_command.epilog = examples(*(lines or texts["examples"]))
        for parameter in made_command.params:
            if isinstance(parameter, click.Option):
                parameter.help = parameter.help or texts.get(parameter.name or "")
        return made_command

    return made


def _ending(function: Function) -> Callable[..., None]:
    """Ends the process; an asynchronous function returns the exit status. Errors are shown without a traceback."""

    @functools.wraps(function)
    def wrapped(*arguments: object, **options: object) -> None:
        try:
            begun = function(*arguments, **options)
            status = 0 if begun is None else asyncio.run(begun)
        except PenstockError as error:
            first, *others = (
                error.args if isinstance(error, ConfigError) else (str(error),)
            )
            say(f"penstock: {first}", *others, err=True)
            status = 2 if isinstance(error, ConfigError) else 1
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            say(f"penstock: this {how_to_install(error.name)}", err=True)
            status = 1
        except KeyboardInterrupt:
            status = 130
        sys.exit(status)

    return wrapped


def chosen(config: Config, name: str | None) -> Broker:
    """The broker of that name, or the only one there is."""
    matching = [broker for broker in config.brokers if name in (None, broker.name)]
    if len(matching) == 1:
        return matching[0]
    names = [broker.name for broker in config.brokers]
    if name is None:
        raise ConfigError(
            f"the configuration has several brokers; give --broker, one of {', '.join(names)}"
        )
    raise ConfigError(
        f"no broker {name!r} in the configuration; there are {', '.join(names)}"
    )
