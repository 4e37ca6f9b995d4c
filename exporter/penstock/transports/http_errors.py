"""Why an HTTP request failed, in words for an operator: no Python object, and which port or scheme is meant instead."""

import os
import re
import ssl

import aiohttp

NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})
"""OpenSSL's reasons where what answers does not speak TLS."""


def reason(error: BaseException) -> str:
    """What went wrong and, where the answer shows it, which port or scheme was meant."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted: {getattr(error.certificate_error, 'verify_message', '')}".rstrip(": ")
    if isinstance(error, aiohttp.ClientConnectorError):
        return _of_connection(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an HTTP answer; is this port for https, or for messages?"
    if isinstance(error, aiohttp.ClientResponseError):  # what came is no HTTP: its first bytes may be binary
        return "the answer is not HTTP; is this the port for messages (61616, 5672, 7676) in place of the console's?"
    return _of_connection(error) if isinstance(error, OSError) else str(error) or "no reason was given"


def _of_connection(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason in NO_TLS:
            return "this port does not speak TLS: write http:// in place of https://"
        return f"TLS: {(error.reason or 'the handshake failed').replace('_', ' ').lower()}"
    numbers = re.findall(r"\[Errno (\d+)\]", str(error))  # of each address that was tried
    causes = dict.fromkeys(os.strerror(int(one)).lower() for one in numbers)
    return ", ".join(causes) or error.strerror or "no connection"
