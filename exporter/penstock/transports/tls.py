"""TLS of a client: whom it trusts, and as whom it shows itself; files that are renewed are taken without a restart."""

import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import ConfigError
from penstock.core.watched_files import FileContents

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """How to trust the server's certificate and to show our own. Files in PEM."""

    ca_file: str | Path | None = None
    cert_file: str | Path | None = None
    key_file: str | Path | None = None
    server_name: str | None = None
    insecure: bool = False
    """Accept any certificate; only when the operator said so."""

    def paths(self) -> Sequence[Path]:
        """All files that are read; without `ca_file` the system's authorities, where they are one file."""
        ca_file = self.ca_file or ssl.get_default_verify_paths().cafile
        return [
            Path(file)
            for file in (ca_file, self.cert_file, self.key_file)
            if file is not None
        ]


class RenewedContext:
    """The context that some files give, made again when one of them holds something else. ConfigError: at first."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._paths = files.paths()
        self._contents = FileContents()
        self._taken = self._contents.of(self._paths)
        self.context = ssl_context(files)
        self.fault = ""
        """Why the files as they are now cannot be used."""

    def renew(self) -> None:
        """Take what the files hold now.

        Where that cannot be used, as between a new key and its certificate, the context before stays, and it is tried
        again at the next call.
        """
        now = self._contents.of(self._paths)
        if now == self._taken:
            self.fault = ""
            return
        try:
            self.context = ssl_context(self._files)
        except ConfigError as error:
            self.fault = str(error)
            return
        self._taken = now
        self.fault = ""
        log.debug("renewed: %s", ", ".join(map(str, self._paths)))


def ssl_context(tls: TlsFiles | None) -> ssl.SSLContext:
    """A client context for `tls`; `ConfigError` names the file that cannot be used."""
    tls = tls or TlsFiles()
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"tls.ca_file {tls.ca_file}: no usable CA certificates in PEM: {error}"
        ) from error
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file:
        try:
            context.load_cert_chain(
                tls.cert_file, tls.key_file, password=_no_passphrase
            )
        except (OSError, ssl.SSLError, ValueError) as error:
            why = f"certificate and key cannot be used: {_reason(error)}"
            raise ConfigError(f"tls.cert_file {tls.cert_file}: {why}") from error
    return context


def _no_passphrase() -> str:
    raise ValueError("the key is encrypted; give one without a passphrase")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    return str(error)
