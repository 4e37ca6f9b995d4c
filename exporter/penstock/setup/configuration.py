"""Penstock's own files: the broker's entry in penstock.yaml, and its password beside it."""

import re
import secrets
from pathlib import Path
from typing import Any

import yaml

from penstock.config.values import read_password
from penstock.core.errors import ConfigError
from penstock.setup.changes import FileChange, read_lines


def password_of(path: Path) -> str:
    """Return the password in the file, as the agent will read it; a new one where there is no file.

    ConfigError where the file holds none.
    """
    if not path.exists():
        return secrets.token_urlsafe(24)
    try:
        return read_password(path)
    except ValueError as error:
        raise ConfigError(f"--password.file: {error}") from None


def knows(path: Path, url: str) -> bool:
    """Return whether the configuration has a broker with this URL. ConfigError where the file is no configuration."""
    text = read_lines(path)
    return text is not None and url in _names(_parsed(text, path))


def entry(path: Path, broker: dict[str, object]) -> FileChange:
    """Return the change that adds the broker to the configuration; none where a broker has its URL already.

    The item is inserted into the text: comments would be lost if all were written again. Where the result is not the
    configuration with one more broker, ConfigError says what to add by hand.
    """
    text = read_lines(path)
    lines = yaml.safe_dump(broker, sort_keys=False, width=10_000).splitlines()
    if text is None:
        return FileChange(path, "interval: 15s\nbrokers:\n" + _item(lines, "  "))
    before = _parsed(text, path)
    brokers = before.get("brokers") or []
    known = _names(before)
    if broker["url"] in known:
        return FileChange(path, text)
    if broker["name"] in known.values():
        raise ConfigError(
            f"{path}: has another broker called {broker['name']}; give this one another --name"
        )
    # From the key to the first item of the list, over comments and blank lines; group 1 is the indent of the items.
    head = re.search(
        r"(?m)^brokers:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*(?=([ \t]*)- )", text
    )
    new_text = text
    if head:
        item = _item(lines, head[1])
        new_text = f"{text[: head.end()]}{item}{text[head.end() :]}"
    if _parsed(new_text, path) != {**before, "brokers": [broker, *brokers]}:
        raise ConfigError(
            f"{path}: cannot be added to; put this below `brokers:`",
            *_item(lines, "  ").splitlines(),
        )
    return FileChange(path, new_text)


def _names(config: dict[str, Any]) -> dict[object, object]:
    """Return the name of each broker by its URL."""
    brokers = config.get("brokers") or []
    return {
        broker.get("url"): broker.get("name")
        for broker in brokers
        if isinstance(broker, dict)
    }


def _parsed(text: str, path: Path) -> dict[str, Any]:
    """Return the configuration of a text. ConfigError where it is none; path: named in that error."""
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        config = None
    if not isinstance(config, dict):
        raise ConfigError(
            f"{path}: is no configuration of Penstock; name another file with --config.file"
        )
    return config


def _item(lines: list[str], indent: str) -> str:
    """Return lines of YAML as one item of a list: the first after a dash, the others below it."""
    return f"{indent}- " + f"\n{indent}  ".join(lines) + "\n"
