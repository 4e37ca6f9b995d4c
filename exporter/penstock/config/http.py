"""How the commands ask an agent (`--http.config.file`): user and TLS, in the form that promtool has."""

from pydantic import StrictBool
from pydantic import field_validator as check

from penstock.config.broker import ClientTls
from penstock.config.section import Section
from penstock.config.values import EnvSecret, EnvText, File, one_password, read_password


class BasicAuth(Section):
    """The user and its password, in place or in a file."""

    username: EnvText
    password: EnvSecret | None = None
    password_file: File | None = None

    _one_password = check("password_file")(one_password)

    def secret(self) -> str:
        """The password as it is now; ValueError when its file cannot be read any more."""
        if self.password_file is not None:
            return read_password(self.password_file)
        return self.password.get_secret_value() if self.password is not None else ""


class TlsClient(ClientTls):
    """TLS to the agent; the system's authorities are trusted where nothing else is said."""

    insecure_skip_verify: StrictBool = False


class HttpConfig(Section):
    """The whole file."""

    basic_auth: BasicAuth | None = None
    tls_config: TlsClient = TlsClient()
