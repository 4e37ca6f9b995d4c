"""Tables and texts in TOML beside the code that they are of: read once, at import."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any


def read_toml(package: str, file: str = "catalogue.toml") -> Mapping[str, Any]:
    """What the file of a package says."""
    return tomllib.loads(files(package).joinpath(file).read_text(encoding="utf-8"))


def filled(
    fields: Mapping[str, Any], numbers: Mapping[str, float], *names: str
) -> dict[str, Any]:
    """The fields, with these numbers in place of ${name} in the texts `names`."""
    given = {name: f"{number:g}" for name, number in numbers.items()}
    return {
        **fields,
        **{
            name: Template(fields[name]).substitute(given)
            for name in names
            if name in fields
        },
    }
