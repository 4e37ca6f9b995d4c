"""File → Config (or another model), or one ConfigError that lists every problem with its line."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from penstock.config.discovery import Profile, Target, TargetFile
from penstock.config.document import Path as KeyPath
from penstock.config.document import Problem, read
from penstock.config.model import Config, RulesFile
from penstock.config.section import TEXTS, Section
from penstock.config.values import Reading, mask, read_file
from penstock.core.errors import ConfigError

MAX_BYTES = 2**20
MAX_PROBLEMS = 50

ModelT = TypeVar("ModelT", bound=Section)


def load(
    path: str | os.PathLike[str], environ: Mapping[str, str] | None = None
) -> Config:
    """The configuration in the file `path`; `environ` (default: the process's) fills `${NAME}`.

    Raises ConfigError, one line per problem: `FILE:LINE: brokers[0].url: what is wrong; what is allowed`.
    """
    return load_as(Config, Path(path), environ, flag="--config.file")


def load_targets(path: Path, profiles: Mapping[str, Profile]) -> tuple[Target, ...]:
    """The brokers in a file of discovery, each fit for the one of `profiles` that it names. Raises ConfigError."""
    reading = Reading(path.parent, environ={}, profiles=profiles)
    return _load(
        TargetFile, path, reading, flag="discovery.files", regular=True
    ).brokers


def load_rules(path: Path) -> Config:
    """The rules and constants in a configuration, which need not name a broker. Raises ConfigError as `load` does."""
    return load_as(RulesFile, path, flag="--rules")


def load_as(
    model: type[ModelT],
    path: Path,
    environ: Mapping[str, str] | None = None,
    *,
    flag: str,
) -> ModelT:
    """The file as a `model`; `flag` is where an operator names the file. Raises ConfigError as `load` does."""
    return _load(
        model,
        path,
        Reading(path.parent, os.environ if environ is None else environ),
        flag=flag,
    )


def _load(
    model: type[ModelT],
    path: Path,
    reading: Reading,
    *,
    flag: str,
    regular: bool = False,
) -> ModelT:
    may_be_empty = not any(field.is_required() for field in model.model_fields.values())
    document = read(_text(path, flag, regular=regular), may_be_empty=may_be_empty)
    problems = list(document.problems)
    if document.values is not None:
        try:
            document_model = model.model_validate(document.values, context=reading)
        except ValidationError as error:
            # The error holds the input, secrets included: only texts of our own leave this function.
            problems += [
                Problem(
                    document.line(detail["loc"]), detail["loc"], _told(model, detail)
                )
                for detail in error.errors(include_url=False, include_input=False)
                if detail["loc"] not in document.void
                or detail["type"] == "extra_forbidden"
            ]
        if not problems:
            return document_model
    raise ConfigError(
        *(mask(line, reading.expanded) for line in _report(path, problems))
    )


def _text(path: Path, flag: str, *, regular: bool) -> str:
    try:
        content = read_file(path, limit=MAX_BYTES + 1, regular=regular)
    except ValueError as error:
        raise ConfigError(f"{error}; give the configuration file with {flag}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(
            f"{path}: is larger than {MAX_BYTES} bytes; a configuration is not"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text") from None


def _report(path: Path, problems: list[Problem]) -> list[str]:
    problems = sorted(dict.fromkeys(problems), key=lambda problem: problem.line)
    lines = [
        f"{path}:{problem.line}: {shown_path(problem.path)}{': ' if problem.path else ''}{problem.text}"
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"{path}: and {len(problems) - MAX_PROBLEMS} more")
    return lines


def shown_path(path: KeyPath) -> str:
    """`brokers[0].url`. A key that is no plain word is cut: it may be a whole `password:secret` without its blank."""
    text = ""
    for part in path:
        text += (
            f"[{part}]"
            if isinstance(part, int)
            else f".{part if _word(part) == part else _word(part) + '…'}"
        )
    return text.removeprefix(".")


def _word(key: str) -> str:
    return re.split(r"[^A-Za-z0-9_-]", key[:40], maxsplit=1)[0]


def _told(model: type[Section], detail: ErrorDetails) -> str:
    """What pydantic found, in words that say what is allowed and show no value."""
    if detail["type"] == "extra_forbidden":
        return _unknown_key(model, detail["loc"])
    template: str | None = TEXTS["errors"].get(detail["type"])
    return (
        detail["msg"]
        if template is None
        else template.format_map(detail.get("ctx", {}))
    )


def _unknown_key(model: type[Section], path: KeyPath) -> str:
    *parent, key = path
    section = _annotation(model, tuple(parent))
    advice: str | None = section.ELSEWHERE.get(str(key))
    if advice is not None:
        return advice
    allowed = sorted(name for name, _ in _fields(section))
    near = difflib.get_close_matches(_word(str(key)).lower(), allowed, 1)
    return (
        f"unknown key; did you mean {near[0]}?"
        if near
        else f"unknown key; allowed: {', '.join(allowed)}"
    )


def _annotation(model: Any, path: KeyPath) -> Any:
    """The type that the configuration declares at a path, None, lists and the keys of mappings taken off."""
    for key in path:
        if get_origin(model) is dict:
            model = _plain(get_args(model)[1])
        elif isinstance(key, str):
            model = _plain(
                next(field.annotation for name, field in _fields(model) if name == key)
            )
    return model


def _plain(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType, tuple):
        return _plain(get_args(annotation)[0])
    return annotation


def _fields(model: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    return ((field.alias or name, field) for name, field in model.model_fields.items())
