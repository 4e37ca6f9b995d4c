"""How the commands ask an agent (`--http.config.file`): user and TLS, in the form that promtool has."""

from pydantic import StrictBool
from pydantic import field_validator as check

from penstock.config.broker import ClientTls
from penstock.config.section import Section
from penstock.config.values import EnvSecret, EnvText, File, one_password, read_password
from penstock.core.errors import ConfigError


class BasicAuth(Section):
    """The user and its password, in place or in a file."""

    username: EnvText
    password: EnvSecret | None = None
    password_file: File | None = None

    _one_password = check("password_file")(one_password)

    def secret(self) -> str:
        """The password as it is now; ConfigError when its file cannot be read any more."""
        if self.password_file is None:
            return "" if self.password is None else self.password.get_secret_value()
        try:
            return read_password(self.password_file)
        except ValueError as error:
            raise ConfigError(
                f"--http.config.file: basic_auth: password_file: {error}"
            ) from None


class TlsClient(ClientTls):
    """TLS to the agent; the system's authorities are trusted where nothing else is said."""

    insecure_skip_verify: StrictBool = False


class HttpConfig(Section):
    """The whole file."""

    basic_auth: BasicAuth | None = None
    tls_config: TlsClient = TlsClient()
