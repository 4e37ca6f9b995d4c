"""Whether the certificate of a server is trusted, tried by a handshake that asks for nothing."""

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from penstock.transports.http_errors import reason
from penstock.transports.tls import TlsFiles, ssl_context

TIMEOUT: Final = 5.0
"""s, to connect, and for the handshake."""
UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's codes where no authority that is trusted has signed: another file of authorities can help."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """
    What came of it. answered: whether something listens there.

    problem: why the certificate, or what answers, cannot be used; empty where it can. unknown_authority: whether
    another file of authorities could help.
    """

    answered: bool
    problem: str = ""
    unknown_authority: bool = False


def try_handshake(url: str, ca_file: Path | None) -> Handshake:
    """
    Connects to an https URL. ca_file: whom to trust; None: the system's authorities.

    Raises:
        ConfigError: the file holds no certificates.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    context = ssl_context(TlsFiles(ca_file=ca_file))
    try:
        with (
            socket.create_connection((host, parts.port or 443), TIMEOUT) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return Handshake(answered=True)
    except ssl.SSLCertVerificationError as error:
        unknown = error.verify_code in UNKNOWN_AUTHORITY
        return Handshake(
            answered=True, problem=reason(error), unknown_authority=unknown
        )
    except ssl.SSLError as error:
        return Handshake(answered=True, problem=reason(error))
    except OSError as error:
        return Handshake(answered=False, problem=reason(error))
