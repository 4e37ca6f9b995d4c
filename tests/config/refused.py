"""What is said of a configuration file that cannot be used."""

from pathlib import Path

import pytest

from penstock.config import load
from penstock.core.errors import ConfigError


def error_of(path: Path, text: str) -> str:
    """The error of a file with this text."""
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(path)
    return str(refused.value)
