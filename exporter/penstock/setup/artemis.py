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
_WILDCARDS = {"0.0.0.0", "::", ""}  # noqa: S104 - what a console may be bound to


@dataclass(frozen=True, slots=True)
class Account:
    """The user and its role of the same name; the password goes to no file of the broker but as a hash."""

    user: str
    password: str


@dataclass(frozen=True, slots=True)
class Instance:
    """What the files of an instance say of it. url: of its console's Jolokia."""

    etc: Path
    name: str
    url: str


def etc_of(directory: Path) -> Path | None:
    """The `etc/` of an instance's directory, or that directory itself; None where it is none."""
    return next(
        (
            one
            for one in (directory / "etc", directory)
            if (one / "broker.xml").is_file()
        ),
        None,
    )


def instance(etc: Path, name: str | None, url: str | None) -> Instance:
    """Called and reached as given, else as the files say. PenstockError where they do not say where the console is."""
    called = re.search(
        r"<name>\s*([^<\s]+)\s*</name>", _blank(_needed(etc / "broker.xml"))
    )
    return Instance(
        etc,
        name or (called[1] if called else "artemis"),
        url or _console(etc / "bootstrap.xml"),
    )


def _console(bootstrap: Path) -> str:
    bound = re.search(r'\b(?:uri|bind)="(https?://[^"$]+)"', _blank(_needed(bootstrap)))
    if bound is None:
        raise PenstockError(
            f"{bootstrap}: names no address of the console; give it with --url"
        )
    parts = urlsplit(bound[1].split(",")[0])
    host = (
        "localhost"
        if (parts.hostname or "") in _WILDCARDS
        else parts.netloc.rpartition(":")[0]
    )
    default = 443 if parts.scheme == "https" else 80
    return f"{parts.scheme}://{host}:{parts.port or default}/console/jolokia/"


def plan(
    found: Instance, account: Account, *, keep_proxy: bool = False
) -> Iterator[FileChange]:
    """What to change of the instance's files. PenstockError where one has a form that is not known.

    keep_proxy: Jolokia may go on opening connections for its users.
    """
    etc = found.etc
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
    users, roles = (
        _named(login, kind, f"artemis-{kind}s.properties") for kind in ("user", "role")
    )
    yield _users(etc / users, account)
    yield FileChange(
        etc / roles, _with_member(_needed(etc / roles), account.user, etc / roles)
    )
    profile = _with_console(profile, account.user, etc / "artemis.profile")
    yield FileChange(
        etc / "artemis.profile", profile if keep_proxy else _without_proxy(profile)
    )
    yield FileChange(
        etc / "management.xml",
        _with_rights(_needed(etc / "management.xml"), account.user, etc),
    )
    access = etc / "jolokia-access.xml"
    if (text := read_lines(access)) is not None:
        yield FileChange(access, _with_origin(text, found.url))


def _needed(path: Path) -> str:
    text = read_lines(path)
    if text is None:
        raise PenstockError(
            f"{path}: is not there; is {path.parent} the etc/ of a broker's instance?"
        )
    return text


def _blank(xml: str) -> str:
    """Comments as blanks, so that each place stays where it is."""
    return _COMMENT.sub(lambda comment: re.sub(r"\S", " ", comment[0]), xml)


def _named(login: str, kind: str, default: str) -> str:
    found = re.search(
        rf'org\.apache\.activemq\.jaas\.properties\.{kind}\s*=\s*"([^"]+)"', login
    )
    return found[1] if found else default


def _ended(text: str) -> str:
    """`artemis create` ends its files of users and roles without a newline."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def _users(path: Path, account: Account) -> FileChange:
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
    """As `artemis user add` writes it: PBKDF2 with SHA-1, 1,024 rounds, 64 bytes."""
    salt = salt or secrets.token_bytes(32)
    made = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, 1024, 64)
    return f"ENC(1024:{salt.hex().upper()}:{made.hex().upper()})"


def _is_password(password: str, written: str) -> bool:
    hashed = re.fullmatch(r"ENC\(1024:([0-9A-F]+):[0-9A-F]+\)", written)
    return written == (
        hashed_password(password, bytes.fromhex(hashed[1])) if hashed else password
    )


def _with_member(text: str, user: str, path: Path) -> str:
    """The user alone has a role of its own name."""
    line = re.search(rf"(?m)^[ \t]*{re.escape(user)}[ \t]*[=:][ \t]*(.*?)[ \t]*$", text)
    if line is None:
        return f"{_ended(text)}{user} = {user}\n"
    if line[1] != user:
        raise PenstockError(
            f"{path}: the role {user} is there already, for others; give another user with --user"
        )
    return text


def _with_console(profile: str, role: str, path: Path) -> str:
    """The role may use the console; `HAWTIO_ROLE` up to 2.28, `HAWTIO_ROLES` after it. None and * let every role."""
    found = re.search(
        r"""(?m)^(\s*(?:export\s+)?HAWTIO_ROLES?=)(["']?)([\w, .*-]*)\2\s*?$""", profile
    )
    if found is None:
        raise PenstockError(f"{path}: has no line HAWTIO_ROLES='…'; {BY_HAND}")
    roles = [one.strip() for one in found[3].split(",") if one.strip()]
    if role in roles or roles in ([], ["*"]):
        return profile
    return f"{profile[: found.start()]}{found[1]}'{','.join([*roles, role])}'{profile[found.end() :]}"


def _without_proxy(profile: str) -> str:
    """Jolokia opens no connection for its users. Artemis before 2.40 has a Jolokia that never does; it ignores this."""
    switched_off = re.search(
        r"(?m)^[^#\n]*-Djolokia\.disabledServices=([\w.,]*)", profile
    )
    if switched_off is None:
        reason = "# Jolokia must not open connections to hosts that a request names (`target`)."
        return f'{_ended(profile)}\n{reason}\nJAVA_ARGS="$JAVA_ARGS -Djolokia.disabledServices={PROXY}"\n'
    if PROXY in switched_off[1].split(","):
        return profile
    others = f",{switched_off[1]}" if switched_off[1] else ""
    return f"{profile[: switched_off.start(1)]}{PROXY}{others}{profile[switched_off.end(1) :]}"


def _with_rights(xml: str, role: str, etc: Path) -> str:
    """In each match of the broker's own MBeans the role may read, and nothing else; others may what they could."""
    found = list(_MATCH.finditer(_blank(xml)))
    if not found:
        raise PenstockError(
            f'{etc / "management.xml"}: has no <match domain="org.apache.activemq.artemis">; {BY_HAND}'
        )
    for match in reversed(found):
        rules = [
            (one[1], [part.strip() for part in one[2].split(",")])
            for one in _ACCESS.finditer(match[2])
        ]
        made = _rights(rules, role)
        if made != rules:
            indent = re.search(r"\n([ \t]*)<access", match[2])
            lead = f"\n{indent[1] if indent else ' ' * 12}"
            lines = "".join(
                f'{lead}<access method="{method}" roles="{",".join(roles)}"/>'
                for method, roles in made
            )
            xml = f"{xml[: match.start(2)]}{lines}{xml[match.end(2) :]}"
    return xml


def _rights(
    rules: list[tuple[str, list[str]]], role: str
) -> list[tuple[str, list[str]]]:
    """The first pattern that fits a method decides, so what is guarded comes before what may be read."""

    def allowed(pattern: str) -> list[str]:
        """Who else may call what the pattern means."""
        method = pattern.removesuffix("*")
        fitting = (roles for rule, roles in rules if fnmatch.fnmatchcase(method, rule))
        return [one for one in next(fitting, []) if one != role]

    known = {method for method, _ in rules}
    guarded = {
        method
        for method in known
        if any(fnmatch.fnmatchcase(method, guard) for guard in GUARDED)
    }
    rules = [(method, [one for one in roles if one != role]) for method, roles in rules]
    narrow = [(method, roles) for method, roles in rules if method in guarded]
    guards = [(guard, allowed(guard)) for guard in GUARDED if guard not in known]
    reading = [
        (method, [*allowed(method), role]) for method in READ if method not in known
    ]
    rest = [
        (method, [*roles, role] if method.startswith(("list", "get", "is")) else roles)
        for method, roles in rules
        if method not in guarded
    ]
    named = [rule for rule in rest if rule[0] != "*"]
    return [
        *narrow,
        *guards,
        *named,
        *reading,
        *(rule for rule in rest if rule[0] == "*"),
    ]


def _with_origin(xml: str, url: str) -> str:
    """The console takes calls that name the host of the URL as their origin."""
    plain = _blank(xml)
    parts = urlsplit(url)
    host = parts.netloc.removesuffix(f":{parts.port}")
    patterns = re.findall(r"<allow-origin>\s*([^<\s]+)\s*</allow-origin>", plain)
    if "<cors>" not in plain or any(
        fnmatch.fnmatchcase(f"{parts.scheme}://{host}", one) for one in patterns
    ):
        return xml
    place = plain.index("<cors>") + len("<cors>")
    return (
        f"{xml[:place]}\n        <allow-origin>*://{host}*</allow-origin>{xml[place:]}"
    )
