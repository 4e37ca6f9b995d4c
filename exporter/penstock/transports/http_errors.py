"""Why an HTTP request failed, in words for an operator: no Python object, and which port or scheme is meant instead."""

import os
import re
import ssl

import aiohttp

NO_TLS = frozenset(
    {
        "WRONG_VERSION_NUMBER",
        "RECORD_LAYER_FAILURE",
        "HTTP_REQUEST",
        "PACKET_LENGTH_TOO_LONG",
    }
)
"""OpenSSL's reasons where what answers does not speak TLS."""
TEXTS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "no answer in time"),
    (aiohttp.ClientPayloadError, "the answer breaks off"),
    (aiohttp.ServerDisconnectedError,
     "it closed the connection without an HTTP answer; is this port for https, or for messages?"),
    (aiohttp.ClientResponseError,
     "the answer is not HTTP; is this the port for messages (61616, 5672, 7676) in place of the console's?"),
)  # fmt: skip
"""By the first kind that an error is of."""


def reason(error: BaseException) -> str:
    """Say what went wrong and, where the answer shows it, which port or scheme was meant."""
    cause = getattr(error, "certificate_error", getattr(error, "os_error", error))
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) and cause.reason in NO_TLS:
        return "this port does not speak TLS: write http:// in place of https://"
    if isinstance(cause, ssl.SSLError):
        return (
            f"TLS: {(cause.reason or 'the handshake failed').replace('_', ' ').lower()}"
        )
    text = next((text for kind, text in TEXTS if isinstance(error, kind)), "")
    if not text and isinstance(cause, OSError):
        numbers = re.findall(
            r"\[Errno (\d+)\]", str(cause)
        )  # of each address that was tried
        text = (
            ", ".join(dict.fromkeys(os.strerror(int(one)).lower() for one in numbers))
            or cause.strerror
            or ""
        )
    return text or str(cause) or "no reason was given"
