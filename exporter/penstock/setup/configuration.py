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
    """What the file holds, as the agent will read it, else a new one. ConfigError: the file holds none."""
    if not path.exists():
        return secrets.token_urlsafe(24)
    try:
        return read_password(path)
    except ValueError as error:
        raise ConfigError(f"--password.file: {error}") from None


def knows(path: Path, url: str) -> bool:
    """Whether the configuration has a broker with this URL. ConfigError where the file is no configuration."""
    text = read_lines(path)
    return text is not None and url in _names(_parsed(text, path))


def entry(path: Path, broker: dict[str, Any]) -> FileChange:
    """The configuration with the broker in it, once by its URL. ConfigError says what to add where it cannot be."""
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
    head = re.search(
        r"(?m)^brokers:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*(?=([ \t]*)- )", text
    )
    made = (
        f"{text[: head.end()]}{_item(lines, head[1])}{text[head.end() :]}"
        if head
        else text
    )
    if _parsed(made, path) != {**before, "brokers": [broker, *brokers]}:
        raise ConfigError(
            f"{path}: cannot be added to; put this below `brokers:`",
            *_item(lines, "  ").splitlines(),
        )
    return FileChange(path, made)


def _names(config: dict[str, Any]) -> dict[Any, Any]:
    """URL → name of each broker."""
    brokers = config.get("brokers") or []
    return {
        broker.get("url"): broker.get("name")
        for broker in brokers
        if isinstance(broker, dict)
    }


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            f"{path}: is no configuration of Penstock; name another file with --config.file"
        )
    return found


def _item(lines: list[str], indent: str) -> str:
    return f"{indent}- " + f"\n{indent}  ".join(lines) + "\n"
