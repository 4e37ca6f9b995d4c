"""Errors of the commands of history and trends, as an operator reads them."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from penstock.errors import PenstockError


def told(function: Callable[..., None]) -> Callable[..., None]:
    """Errors raised on purpose without a traceback; a missing extra with what to install."""

    @wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except PenstockError as error:
            click.echo(f"penstock: {error}", err=True)
            sys.exit(1)
        except ModuleNotFoundError as error:
            click.echo(f"penstock: trends need {error.name}, please: pip install 'penstock[trends]'", err=True)
            sys.exit(1)

    return wrapped
