"""Who vouches for a broker's certificate: asked, tried, and only then written into the configuration."""

from pathlib import Path
from urllib.parse import urlsplit

import click

from penstock.core.errors import ConfigError, PenstockError
from penstock.transports.handshake import try_handshake
from penstock.tui.lines import say

_QUESTION = "File of the authorities to trust, PEM"


def tls_of(url: str, ca_file: Path | None, *, ask: bool) -> dict[str, str]:
    """
    The section `tls:` of a broker, empty where the system's authorities vouch for it, and for http.

    ca_file: as the option says. ask: whether the operator can be asked for another. Says what was tried.

    Raises:
        ConfigError: the URL has no TLS.
        PenstockError: the certificate is refused, and another authority is not given or would not help.
    """
    if urlsplit(url).scheme != "https":
        if ca_file is not None:
            raise ConfigError(f"--ca.file is for a URL with https, which {url} is not")
        return {}
    problem = _problem(url, ca_file)
    while problem:
        if not ask:
            raise PenstockError(
                f"{problem}. Give the file of its authority with --ca.file"
            )
        say(problem)
        ca_file = click.prompt(
            _QUESTION, type=click.Path(path_type=Path, dir_okay=False)
        )
        problem = _problem(url, ca_file)
    return {"ca_file": str(ca_file.absolute())} if ca_file else {}


def _problem(url: str, ca_file: Path | None) -> str:
    """
    Why another file of authorities is needed; empty where this one will do, or nothing answers to try it on.

    Raises:
        PenstockError: no file of authorities would help.
    """
    trusted = f"the authorities of {ca_file}" if ca_file else "the system's authorities"
    try:
        handshake = try_handshake(url, ca_file)
    except ConfigError as error:
        return str(error)
    if not handshake.answered:
        say(f"{url}: {handshake.problem}; its certificate was not tried with {trusted}")
        return ""
    if handshake.unknown_authority:
        return f"{url}: {handshake.problem}, tried with {trusted}"
    if handshake.problem:
        raise PenstockError(f"{url}: {handshake.problem}")
    say(f"{url}: its certificate is trusted by {trusted}")
    return ""
