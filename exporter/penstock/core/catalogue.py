"""Words and tables that stand in a TOML file beside the code that uses them."""

import tomllib
from importlib.resources import files
from typing import Any


def catalogue(package: str, name: str) -> dict[str, Any]:
    """What the file `name` of a package has; it is read once, at import."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
