"""An Artemis instance's files in `etc/`: an account that may read and nothing else, and where its console is.

The forms of the files are those that `artemis create` writes, 2.21 to 2.44; what differs is refused with what to do.
"""

import fnmatch
import hashlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from penstock.core.errors import PenstockError
from penstock.setup.changes import FileChange, read_lines

BY_HAND = "see docs/artemis.md for the lines to add by hand"
GUARDED = (
    "listMessages*", "listDelivering*", "listScheduled*", "listUser", "listPreparedTransactionDetails*",
    "getFirstMessage*",
)  # fmt: skip
"""Methods that show messages or users, or lock a queue: the account must not have them."""
READ = ("list*", "get*", "is*")
"""Methods that the account may call, but for those that are guarded."""
PROXY = "org.jolokia.service.jsr160.Jsr160RequestHandler"
"""What in Jolokia 2 passes a request on to another JVM. `disabledServices` is the one setting that switches it off: the
policy file is asked only when the connection is there, and an empty list of allowed targets allows all.
"""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MATCH = re.compile(
    r'(<match\s+domain="org\.apache\.activemq\.artemis"[^>]*>)(.*?)(\s*</match>)',
    re.DOTALL,
)
_ACCESS = re.compile(r'<access\s+method="([^"]+)"\s+roles="([^"]*)"\s*/>')
_WILDCARDS = {"0.0.0.0", "::", ""}  # noqa: S104
"""Addresses that stand for all of a host: a console may listen on them, and nobody can connect to them."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user and its role of the same name; the password goes to no file of the broker but as a hash."""

    user: str
    password: str


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance, as its files describe it. url: of its console's Jolokia."""

    etc: Path
    name: str
    url: str


def etc_of(directory: Path) -> Path | None:
    """Return the `etc/` of an instance's directory, or that directory itself; None where it is neither."""
    for etc in (directory / "etc", directory):
        if (etc / "broker.xml").is_file():
            return etc
    return None


def instance(etc: Path, name: str | None, url: str | None) -> Instance:
    """Return the instance, with its name and URL from its files where the operator gives none.

    PenstockError where the files do not say where the console is.
    """
    own_name = _name(etc / "broker.xml")
    return Instance(etc, name or own_name, url or _console(etc / "bootstrap.xml"))


def _name(broker_xml: Path) -> str:
    """Return the broker's name; the default of Artemis where the file has none."""
    xml = _blank(_needed(broker_xml))
    name = re.search(r"<name>\s*([^<\s]+)\s*</name>", xml)
    return name[1] if name else "artemis"


def _console(bootstrap: Path) -> str:
    """Return the URL of the console's Jolokia, as it is reached from this host. PenstockError where none is named.

    Versions name the address differently: uri or bind, the latter with several URLs, of which the first is taken.
    """
    bound = re.search(r'\b(?:uri|bind)="(https?://[^"$]+)"', _blank(_needed(bootstrap)))
    if bound is None:
        raise PenstockError(
            f"{bootstrap}: names no address of the console; give it with --url"
        )
    parts = urlsplit(bound[1].split(",")[0])
    is_any_address = (parts.hostname or "") in _WILDCARDS
    host = "localhost" if is_any_address else parts.netloc.rpartition(":")[0]
    default_port = 443 if parts.scheme == "https" else 80
    port = parts.port or default_port
    return f"{parts.scheme}://{host}:{port}/console/jolokia/"


def plan(
    broker: Instance, account: Account, *, keep_proxy: bool = False
) -> Iterator[FileChange]:
    """Yield the changes of the instance's files that add the account. PenstockError where a form is not known.

    They add the user, its role, its right to use the console and to read; the console's own host as an origin; and,
    unless `keep_proxy`, they keep Jolokia from opening connections for its users.
    """
    etc = broker.etc
    login = _needed(etc / "login.config")
    profile = _needed(etc / "artemis.profile")
    if "PropertiesLoginModule" not in login:
        raise PenstockError(
            f"{etc / 'login.config'}: users are in no file of the broker; {BY_HAND}"
        )
    if "ArtemisRbacMBeanServerBuilder" in re.sub(r"(?m)^\s*#.*", "", profile):
        raise PenstockError(
            f"{etc / 'artemis.profile'}: rights are in broker.xml, not in management.xml; {BY_HAND}"
        )
    users = etc / _properties_file(login, "user")
    roles = etc / _properties_file(login, "role")
    yield _users(users, account)
    yield FileChange(roles, _with_member(_needed(roles), account.user, roles))
    profile = _with_console(profile, account.user, etc / "artemis.profile")
    if not keep_proxy:
        profile = _without_proxy(profile)
    yield FileChange(etc / "artemis.profile", profile)
    management = etc / "management.xml"
    rights = _with_rights(_needed(management), account.user, etc)
    yield FileChange(management, rights)
    access = etc / "jolokia-access.xml"
    access_xml = read_lines(access)
    if access_xml is not None:
        yield FileChange(access, _with_origin(access_xml, broker.url))


def _needed(path: Path) -> str:
    """Return the text of a file that every instance has. PenstockError where it is not there."""
    text = read_lines(path)
    if text is None:
        raise PenstockError(
            f"{path}: is not there; is {path.parent} the etc/ of a broker's instance?"
        )
    return text


def _blank(xml: str) -> str:
    """Return the text with blanks in place of comments, so that each place stays where it is."""
    return _COMMENT.sub(lambda comment: re.sub(r"\S", " ", comment[0]), xml)


def _properties_file(login: str, kind: str) -> str:
    """Return the name of the file of users or roles. kind: `user` or `role`; login: the text of login.config."""
    setting = re.search(
        rf'org\.apache\.activemq\.jaas\.properties\.{kind}\s*=\s*"([^"]+)"', login
    )
    return setting[1] if setting else f"artemis-{kind}s.properties"


def _ended(text: str) -> str:
    """Return the text with a newline at its end: `artemis create` ends its files of users and roles without one."""
    is_ended = not text or text.endswith("\n")
    return text if is_ended else f"{text}\n"


def _users(path: Path, account: Account) -> FileChange:
    """Return the change that adds the user; none where it is there. PenstockError where it has another password."""
    text = _needed(path)
    line = re.search(
        rf"(?m)^[ \t]*{re.escape(account.user)}[ \t]*[=:][ \t]*(.*?)[ \t]*$", text
    )
    if line is None:
        hashed = hashed_password(account.password)
        return FileChange(
            path, f"{_ended(text)}{account.user} = {hashed}\n", secret=hashed
        )
    if not _is_password(account.password, line[1]):
        raise PenstockError(
            f"{path}: the user {account.user} is there already, with another password; give that in the password"
            " file, or another user with --user"
        )
    return FileChange(path, text, secret=line[1])


def hashed_password(password: str, salt: bytes = b"") -> str:
    """Return the hash as `artemis user add` writes it: PBKDF2 with SHA-1, 1,024 rounds, 64 bytes."""
    salt = salt or secrets.token_bytes(32)
    digest = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, 1024, 64)
    return f"ENC(1024:{salt.hex().upper()}:{digest.hex().upper()})"


def _is_password(password: str, written: str) -> bool:
    """Return whether this is the password that is written, as a hash or as it is."""
    hashed = re.fullmatch(r"ENC\(1024:([0-9A-F]+):[0-9A-F]+\)", written)
    if hashed is None:
        return written == password
    salt = bytes.fromhex(hashed[1])
    return written == hashed_password(password, salt)


def _with_member(text: str, user: str, path: Path) -> str:
    """Return the text of the roles with one that has the user's name, and no other member.

    PenstockError where there is such a role with others: they would get its rights.
    """
    line = re.search(rf"(?m)^[ \t]*{re.escape(user)}[ \t]*[=:][ \t]*(.*?)[ \t]*$", text)
    if line is None:
        return f"{_ended(text)}{user} = {user}\n"
    if line[1] != user:
        raise PenstockError(
            f"{path}: the role {user} is there already, for others; give another user with --user"
        )
    return text


def _with_console(profile: str, role: str, path: Path) -> str:
    """Return the profile in which the role may use the console. None and * let every role use it.

    The setting is `HAWTIO_ROLE` up to 2.28, `HAWTIO_ROLES` after it.
    """
    line = re.search(
        r"""(?m)^(\s*(?:export\s+)?HAWTIO_ROLES?=)(["']?)([\w, .*-]*)\2\s*?$""", profile
    )
    if line is None:
        raise PenstockError(f"{path}: has no line HAWTIO_ROLES='…'; {BY_HAND}")
    roles = _listed(line[3])
    if role in roles or roles in ([], ["*"]):
        return profile
    before = profile[: line.start()]
    after = profile[line.end() :]
    all_roles = ",".join([*roles, role])
    return f"{before}{line[1]}'{all_roles}'{after}"


def _listed(text: str) -> list[str]:
    """Return the names in a list that is divided by commas."""
    names = [name.strip() for name in text.split(",")]
    return [name for name in names if name]


def _without_proxy(profile: str) -> str:
    """Return the profile in which Jolokia opens no connection for its users.

    Artemis before 2.40 has a Jolokia that never opens one; it ignores the setting.
    """
    switched_off = re.search(
        r"(?m)^[^#\n]*-Djolokia\.disabledServices=([\w.,]*)", profile
    )
    if switched_off is None:
        reason = "# Jolokia must not open connections to hosts that a request names (`target`)."
        return f'{_ended(profile)}\n{reason}\nJAVA_ARGS="$JAVA_ARGS -Djolokia.disabledServices={PROXY}"\n'
    if PROXY in switched_off[1].split(","):
        return profile
    others = f",{switched_off[1]}" if switched_off[1] else ""
    before = profile[: switched_off.start(1)]
    after = profile[switched_off.end(1) :]
    return f"{before}{PROXY}{others}{after}"


def _with_rights(xml: str, role: str, etc: Path) -> str:
    """Return the text in which the role may read the broker's own MBeans and nothing else; others keep their rights."""
    matches = list(_MATCH.finditer(_blank(xml)))
    if not matches:
        raise PenstockError(
            f'{etc / "management.xml"}: has no <match domain="org.apache.activemq.artemis">; {BY_HAND}'
        )
    # From the end, so that the places of the earlier matches stay where they are.
    for match in reversed(matches):
        rules = [
            (access[1], [name.strip() for name in access[2].split(",")])
            for access in _ACCESS.finditer(match[2])
        ]
        rights = _rights(rules, role)
        if rights != rules:
            before = xml[: match.start(2)]
            after = xml[match.end(2) :]
            xml = f"{before}{_access_lines(rights, match[2])}{after}"
    return xml


Rule: TypeAlias = tuple[str, list[str]]
"""A pattern of methods, and the roles that may call them."""


def _access_lines(rules: list[Rule], before: str) -> str:
    """Return the rules as XML, indented as the rules `before` are."""
    indented = re.search(r"\n([ \t]*)<access", before)
    indent = indented[1] if indented else " " * 12
    return "".join(
        f'\n{indent}<access method="{method}" roles="{",".join(roles)}"/>'
        for method, roles in rules
    )


def _rights(rules: list[Rule], role: str) -> list[Rule]:
    """Return the rules by which the role may read and nothing else; the rights of other roles stay.

    The first pattern that fits a method decides. So the guarded methods come first, without the role; then the others,
    those that read with the role; and last the pattern for all methods, if there is one. A pattern that is added has
    the roles that could call its methods before.
    """
    others = [(method, _without(roles, role)) for method, roles in rules]
    patterns = {method for method, _ in rules}
    guarded = {method for method in patterns if _is_guarded(method)}
    guards = [
        (guard, _roles_for(guard, others)) for guard in GUARDED if guard not in patterns
    ]
    reading = [
        (method, [*_roles_for(method, others), role])
        for method in READ
        if method not in patterns
    ]
    open_rules = [
        (method, [*roles, role] if method.startswith(("list", "get", "is")) else roles)
        for method, roles in others
        if method not in guarded
    ]
    return [
        *(rule for rule in others if rule[0] in guarded),
        *guards,
        *(rule for rule in open_rules if rule[0] != "*"),
        *reading,
        *(rule for rule in open_rules if rule[0] == "*"),
    ]


def _without(roles: list[str], role: str) -> list[str]:
    return [other for other in roles if other != role]


def _is_guarded(method: str) -> bool:
    """Return whether the account must not have this method."""
    return any(fnmatch.fnmatchcase(method, guard) for guard in GUARDED)


def _roles_for(pattern: str, rules: list[Rule]) -> list[str]:
    """Return the roles that may call the methods of the pattern now: those of the first rule that fits."""
    method = pattern.removesuffix("*")
    for rule, roles in rules:
        if fnmatch.fnmatchcase(method, rule):
            return roles
    return []


def _with_origin(xml: str, url: str) -> str:
    """Return the text of jolokia-access.xml that allows calls with the host of the URL as their origin.

    It stays as it is where that host is allowed already, or where no origin is checked.
    """
    plain = _blank(xml)
    parts = urlsplit(url)
    host = parts.netloc.removesuffix(f":{parts.port}")
    origin = f"{parts.scheme}://{host}"
    patterns = re.findall(r"<allow-origin>\s*([^<\s]+)\s*</allow-origin>", plain)
    is_allowed = any(fnmatch.fnmatchcase(origin, pattern) for pattern in patterns)
    if is_allowed or "<cors>" not in plain:
        return xml
    place = plain.index("<cors>") + len("<cors>")
    line = f"<allow-origin>*://{host}*</allow-origin>"
    return f"{xml[:place]}\n        {line}{xml[place:]}"
