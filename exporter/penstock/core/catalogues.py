"""Tables and texts in TOML files beside the code that uses them: read once, at import."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any


def read_toml(package: str, file: str = "catalogue.toml") -> Mapping[str, Any]:
    """Return the tables of a TOML file in a package."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    return tomllib.loads(text)


def filled(
    fields: Mapping[str, Any], numbers: Mapping[str, float], *names: str
) -> dict[str, Any]:
    """Return the fields, with the numbers in place of `${name}` in the texts of the fields `names`."""
    number_texts = {name: f"{number:g}" for name, number in numbers.items()}
    filled_texts = {
        name: Template(fields[name]).substitute(number_texts)
        for name in names
        if name in fields
    }
    return {**fields, **filled_texts}
