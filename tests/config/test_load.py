"""Bad files → exact messages; good files → values; whatever the bytes, nothing but Config or ConfigError."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from config.refused import error_of
from penstock.agent.factory import policy_of
from penstock.brokers.budget import RowBudgets
from penstock.config import Broker, Config, TemporaryQueues, Transport, load
from penstock.core.errors import ConfigError
from penstock.model import QueueKind
from penstock.settings.policy import Limits

CANARY = "c4nary-Sq1"
URL = "http://127.0.0.1:8161/console/jolokia/"
MINIMAL = f"brokers:\n- {{name: b1, kind: artemis, url: '{URL}'}}\n"
Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "p.yml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refusal(path: Path, environ: dict[str, str] | None = None) -> list[str]:
    """The lines of the refusal, file names relative to the configuration's directory."""
    with pytest.raises(ConfigError) as caught:
        load(path, environ or {})
    return str(caught.value).replace(f"{path.parent}{os.sep}", "").splitlines()


def broker(more: str) -> str:
    """A file whose only broker has the given lines after its first, name."""
    lines = "".join(f"  {line}\n" for line in more.splitlines())
    return f"brokers:\n- name: b1\n{lines}"


GOOD = f"kind: artemis\nurl: {URL}\n"

DURATIONS = "write 500ms, 15s, 1m30s, 2h, 1d or a number of seconds"
SIZES = "write 64B, 64kB, 64MB, 64GB, 64KiB, 64MiB, 64GiB or bytes"

BAD_FILES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "p.yml:1: is empty; write at least one key"),
    "only a comment": ("# nothing\n", "p.yml:1: is empty; write at least one key"),
    "a list": ("- a\n", "p.yml:1: must be a mapping (key: value) at the top"),
    "a text": ("hello", "p.yml:1: must be a mapping (key: value) at the top"),
    "tab": (
        "brokers:\n\t- name: b1\n",
        "p.yml:2: a tab cannot indent or stand before a value in YAML; use spaces",
    ),
    "syntax": (
        "brokers: [\n",
        "p.yml:2: is not YAML: expected the node content, but found '<stream end>'",
    ),
    "two documents": (
        MINIMAL + "---\n" + MINIMAL,
        "p.yml:3: must hold one document only; remove what follows ---",
    ),
    "not UTF-8": (b"interval: 1s\nbrokers: \xff\n", "p.yml:2: is not UTF-8 text"),
    "control character": (
        "interval: 1s\nbrokers: \x07\n",
        "p.yml:2: character U+0007 is not allowed in YAML",
    ),
    "surrogate": (
        MINIMAL + 'rules:\n- owner: "\\ud800"\n',
        "p.yml:4: rules[0].owner: holds half of a surrogate pair",
    ),
    "beyond Unicode": (MINIMAL + 'rules: "\\UFFFFFFFF"\n', "p.yml:1: is not YAML"),
    "too large": (
        b"#" * (2**20 + 1),
        "p.yml: is larger than 1048576 bytes; a configuration is not",
    ),
    "too many values": (
        f"a: [{'x,' * 100_000}]\n",
        "p.yml:1: holds more than 100000 values",
    ),
    "too deep": ("brokers: " + "[" * 3000, "p.yml:1: is nested deeper than 20 levels"),
    "cycle": (
        "brokers: &a\n- *a\n",
        "p.yml:1: is nested deeper than 20 levels once aliases are followed",
    ),
    "billion laughs": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{n}: &{n} [{','.join([f'*{p}'] * 10)}]\n" for p, n in pairwise("abcdefg")
        ),
        "p.yml:1: holds more than 100000 values once aliases are followed",
    ),
    "merge cycle": (
        "a: &a {<<: *a}\n",
        "p.yml:1: is nested deeper than 20 levels once aliases are followed",
    ),
    "merge of a text": (
        MINIMAL + "series: {<<: hello}\n",
        "p.yml:3: << must be followed by an alias of a mapping",
    ),
    "unknown alias": (
        broker(f"password: *{CANARY}\n"),
        "p.yml:3: unknown alias; a text that begins with * must be quoted",
    ),
    "tag": (
        broker(f"{GOOD}username: u\npassword: !{CANARY} x\n"),
        "p.yml:6: brokers[0].password: has a tag that is not allowed here; a text that begins with ! must be quoted",
    ),
    "python tag": (
        MINIMAL + "rules: !!python/object/apply:os.system [id]\n",
        "p.yml:3: rules: has a tag that is not allowed here; a text that begins with ! must be quoted",
    ),
    "key is a number": (
        MINIMAL + "series: {1: 2}\n",
        "p.yml:3: series: holds a key that is not text",
    ),
    "key is a list": (
        MINIMAL + "series: {[1]: 2}\n",
        "p.yml:3: series: holds a key that is not text",
    ),
    "no value": (
        MINIMAL + "rules:\n",
        "p.yml:3: rules: has no value; give one or remove the key",
    ),
    "no value in a list": (
        "brokers:\n-\n",
        "p.yml:2: brokers[0]: has no value; give one or remove the key",
    ),
    "number that is none": (
        MINIMAL + "series: {clients: !!int foo}\n",
        "p.yml:3: series.clients: is not the number or flag that it looks like; if it is text, quote it",
    ),
    "duplicate key": (
        broker(f"{GOOD}username: a\nusername: b\n"),
        "p.yml:6: brokers[0].username: stands twice, first on line 5; keep one of the two",
    ),
    "duplicate key at the top": (
        "interval: 1s\n" + MINIMAL + "interval: 2s\n",
        "p.yml:4: interval: stands twice, first on line 1; keep one of the two",
    ),
    "unknown key, near": (
        broker(f"{GOOD}usrname: a\n"),
        "p.yml:5: brokers[0].usrname: unknown key; did you mean username?",
    ),
    "unknown key, far": (
        MINIMAL + "series: {zzz: 1}\n",
        "p.yml:3: series.zzz: unknown key; allowed: clients, connections, consumers_per_broker, consumers_per_queue",
    ),
    "unknown key that holds a secret": (
        f"brokers: [{{name: b, kind: artemis, url: '{URL}', password:{CANARY}: 1}}]\n",
        "p.yml:1: brokers[0].password…: unknown key; did you mean password?",
    ),
    "no brokers": ("interval: 5s\n", "p.yml:1: brokers: is missing; it is required"),
    "brokers empty": (
        "brokers: []\n",
        "p.yml:1: brokers: must have at least one entry",
    ),
    "brokers a mapping": (
        "brokers: {}\n",
        "p.yml:1: brokers: must be a list (lines that begin with -)",
    ),
    "broker a secret text": (
        f"brokers:\n- password:{CANARY}\n",
        "p.yml:2: brokers[0]: must be a mapping (key: value)",
    ),
    "no url": (
        broker("kind: artemis\n"),
        "p.yml:2: brokers[0].url: is missing; it is required",
    ),
    "name a number": (
        f"brokers:\n- kind: artemis\n  name: 5\n  url: {URL}\n",
        "p.yml:3: brokers[0].name: must be text; put it in quotes",
    ),
    "name empty": (
        f"brokers:\n- {{kind: artemis, name: '', url: '{URL}'}}\n",
        "p.yml:2: brokers[0].name: must not be empty",
    ),
    "name with a newline": (
        f'brokers:\n- {{kind: artemis, name: "a\\nb", url: "{URL}"}}\n',
        "p.yml:2: brokers[0].name: must hold printable characters only",
    ),
    "name twice": (
        MINIMAL + MINIMAL.removeprefix("brokers:\n"),
        "p.yml:3: brokers[1].name: is the name of an earlier broker; names are unique",
    ),
    "kind unknown": (
        broker(f"kind: rabbitmq\nurl: {URL}\n"),
        "p.yml:3: brokers[0].kind: must be one of 'artemis' or 'openmq' or 'classic'",
    ),
    "jmx over http": (
        broker("kind: openmq\ntransport: jmx\nurl: http://127.0.0.1:8778/jolokia/\n"),
        (
            "p.yml:5: brokers[0].url: must be mq://HOST:PORT or service:jmx:rmi:///jndi/rmi://HOST:PORT/…,"
            " as transport is JMX"
        ),
    ),
    "jmx of artemis by port mapper": (
        broker("kind: artemis\ntransport: jmx\nurl: mq://127.0.0.1:7676\n"),
        "p.yml:5: brokers[0].url: must be service:jmx:rmi:///jndi/rmi://HOST:PORT/…, as transport is JMX",
    ),
    "port mapper without a port": (
        broker("kind: openmq\ntransport: jmx\nurl: mq://broker.example\n"),
        "p.yml:5: brokers[0].url: must be mq://HOST:PORT with the port of the broker's port mapper",
    ),
    "a transport that is gone": (
        broker("kind: artemis\ntransport: jmxquery\nurl: service:jmx:rmi:///x\n"),
        "p.yml:4: brokers[0].transport: must be one of 'jolokia', 'jmx' or 'recording'",
    ),
    "url of another scheme": (
        broker("kind: artemis\nurl: tcp://h:61616\n"),
        "p.yml:4: brokers[0].url: must be http://host:port/path or https://host:port/path",
    ),
    "url without host": (
        broker("kind: artemis\nurl: http:///jolokia\n"),
        "p.yml:4: brokers[0].url: must be http://host:port/path or https://host:port/path",
    ),
    "url with a bad port": (
        broker("kind: artemis\nurl: http://h:99999/\n"),
        "p.yml:4: brokers[0].url: is not a URL; write http://host:port/path",
    ),
    "url with credentials": (
        broker(f"kind: artemis\nurl: http://u:{CANARY}@h:1/\n"),
        "p.yml:4: brokers[0].url: must not hold credentials; put them into username and password or password_file",
    ),
    "url with a query": (
        broker(f"kind: artemis\nurl: http://h:1/?token={CANARY}\n"),
        "p.yml:4: brokers[0].url: must not hold a query (?…) or fragment (#…)",
    ),
    "recording without transport": (
        broker("kind: artemis\nurl: recording:p.yml\n"),
        "p.yml:4: brokers[0].url: a recording needs transport: recording beside it",
    ),
    "recording of nothing": (
        broker("kind: artemis\ntransport: recording\nurl: 'recording:'\n"),
        "p.yml:5: brokers[0].url: recording: must be followed by the name of a file",
    ),
    "recording by http": (
        broker(f"kind: artemis\ntransport: recording\nurl: {URL}\n"),
        "p.yml:5: brokers[0].url: must be recording:FILE, as transport is recording",
    ),
    "recording that is not there": (
        broker("kind: artemis\ntransport: recording\nurl: recording:no.gz\n"),
        "p.yml:5: brokers[0].url: cannot read no.gz: No such file or directory",
    ),
    "password a number": (
        broker(f"{GOOD}username: u\npassword: 777123\n"),
        "p.yml:6: brokers[0].password: must be text; put it in quotes",
    ),
    "password empty": (
        broker(f"{GOOD}username: u\npassword: ''\n"),
        "p.yml:6: brokers[0].password: must not be empty",
    ),
    "password without user": (
        broker(f"{GOOD}password: {CANARY}\n"),
        "p.yml:5: brokers[0].password: needs a username beside it",
    ),
    "password twice": (
        broker(f"{GOOD}username: u\npassword: {CANARY}\npassword_file: p.yml\n"),
        "p.yml:7: brokers[0].password_file: is given together with password; give only one of the two",
    ),
    "password file not there": (
        broker(f"{GOOD}username: u\npassword_file: none.txt\n"),
        "p.yml:6: brokers[0].password_file: cannot read none.txt: No such file or directory",
    ),
    "password file is a directory": (
        broker(f"{GOOD}username: u\npassword_file: /\n"),
        "p.yml:6: brokers[0].password_file: cannot read /: Is a directory",
    ),
    "password file empty": (
        broker(f"{GOOD}username: u\npassword_file: empty\n"),
        "p.yml:6: brokers[0].password_file: empty is empty; write the password into it",
    ),
    "password file large": (
        broker(f"{GOOD}username: u\npassword_file: large\n"),
        "p.yml:6: brokers[0].password_file: large is larger than 4096 bytes; it must hold the password only",
    ),
    "password file binary": (
        broker(f"{GOOD}username: u\npassword_file: binary\n"),
        "p.yml:6: brokers[0].password_file: binary is not UTF-8 text",
    ),
    "file name with NUL": (
        broker(f'{GOOD}username: u\npassword_file: "a\\0b"\n'),
        "p.yml:6: brokers[0].password_file: is not a file name",
    ),
    "file name empty": (
        broker(f"{GOOD}username: u\npassword_file: ''\n"),
        "p.yml:6: brokers[0].password_file: must not be empty",
    ),
    "variable not set": (
        broker(f"{GOOD}username: u\npassword: {CANARY}${{PW}}\n"),
        "p.yml:6: brokers[0].password: environment variable PW is not set; set it, or for a literal $ write $$",
    ),
    "variable not closed": (
        broker(f"{GOOD}username: u\npassword: x${{{CANARY}\n"),
        "p.yml:6: brokers[0].password: '${' is not followed by a variable's name and '}'; for a literal $ write $$",
    ),
    "origin with a path": (
        broker(f"{GOOD}origin: http://h/x\n"),
        "p.yml:5: brokers[0].origin: must be only scheme://host[:port], as a browser sends it",
    ),
    "tls without https": (
        broker(f"{GOOD}tls: {{insecure: true}}\n"),
        "p.yml:5: brokers[0].tls: needs an https URL",
    ),
    "tls file not there": (
        broker("kind: artemis\nurl: https://h/\ntls:\n  ca_file: ca.pem\n"),
        "p.yml:6: brokers[0].tls.ca_file: cannot read ca.pem: No such file or directory",
    ),
    "tls key alone": (
        broker("kind: artemis\nurl: https://h/\ntls: {key_file: p.yml}\n"),
        "p.yml:5: brokers[0].tls.key_file: needs a cert_file beside it",
    ),
    "flag as text": (
        broker("kind: artemis\nurl: https://h/\ntls: {insecure: maybe}\n"),
        "p.yml:5: brokers[0].tls.insecure: must be true or false",
    ),
    "tls a text": (
        broker(f"{GOOD}tls: true\n"),
        "p.yml:5: brokers[0].tls: must be a mapping (key: value)",
    ),
    "page_rows a text": (
        broker(f"{GOOD}page_rows: many\n"),
        "p.yml:5: brokers[0].page_rows: must be a whole number",
    ),
    "page_rows 0": (
        broker(f"{GOOD}page_rows: 0\n"),
        "p.yml:5: brokers[0].page_rows: must be at least 1",
    ),
    "page_rows huge": (
        broker(f"{GOOD}page_rows: 5000000\n"),
        "p.yml:5: brokers[0].page_rows: must be at most 1000000",
    ),
    "size": (
        broker(f"{GOOD}max_answer: 64 MB!\n"),
        f"p.yml:5: brokers[0].max_answer: '64 MB!' is not a size; {SIZES}",
    ),
    "size too small": (
        broker(f"{GOOD}max_answer: 1B\n"),
        "p.yml:5: brokers[0].max_answer: must be at least 64KiB",
    ),
    "pattern empty": (
        broker(f"{GOOD}include: [{{address: ''}}]\n"),
        "p.yml:5: brokers[0].include[0].address: must not be empty",
    ),
    "pattern as text": (
        broker(f"{GOOD}exclude: ['a.#']\n"),
        "p.yml:5: brokers[0].exclude[0]: must be a mapping (key: value)",
    ),
    "duration": (
        "interval: 15 parsecs\n" + MINIMAL,
        f"p.yml:1: interval: '15 parsecs' is not a duration; {DURATIONS}",
    ),
    "duration a flag": (
        "interval: yes\n" + MINIMAL,
        f"p.yml:1: interval: 'True' is not a duration; {DURATIONS}",
    ),
    "duration a list": (
        "interval: [1]\n" + MINIMAL,
        f"p.yml:1: interval: '[1]' is not a duration; {DURATIONS}",
    ),
    "duration endless": (
        "interval: .inf\n" + MINIMAL,
        "p.yml:1: interval: must be at most 1h",
    ),
    "judgement.trend too long": (
        f"judgement: {{trend: 61m}}\n{MINIMAL}",
        "p.yml:1: judgement.trend: must be at most 1h",
    ),
    "duration nan": (
        "interval: .nan\n" + MINIMAL,
        "p.yml:1: interval: must be at least 1s",
    ),
    "interval short": (
        "interval: 10ms\n" + MINIMAL,
        "p.yml:1: interval: must be at least 1s",
    ),
    "timeout not below the interval": (
        "interval: 5s\ntimeout: 5s\n" + MINIMAL,
        "p.yml:2: timeout: must be less than the interval, 5s",
    ),
    "timeout not below the broker's interval": (
        broker(f"{GOOD}interval: 4s\ntimeout: 1m\n"),
        "p.yml:6: brokers[0].timeout: must be less than the interval, 4s",
    ),
    "timeout not below the general interval": (
        "interval: 5s\n" + broker(f"{GOOD}timeout: 6s\n"),
        "p.yml:6: brokers[0].timeout: must be less than the interval, 5s",
    ),
    "queue kind": (
        MINIMAL + "rules:\n- kind: dlq\n",
        (
            "p.yml:4: rules[0].kind: must be one of 'user', 'dead_letter', 'expiry', 'temporary', 'subscription', "
            "'internal', 'link' or 'retroactive'"
        ),
    ),
    "ignore": (
        MINIMAL + "rules:\n- ignore: 1\n",
        "p.yml:4: rules[0].ignore: must be true or false",
    ),
    "owner": (
        MINIMAL + "rules:\n- owner: no\n",
        "p.yml:4: rules[0].owner: must be text; put it in quotes",
    ),
    "temporary_queues": (
        MINIMAL + "temporary_queues: some\n",
        "p.yml:3: temporary_queues: must be one of 'summed' or 'each'",
    ),
    "expression": (
        MINIMAL + "clients: {map: [{match: '(', replace: ''}]}\n",
        "p.yml:3: clients.map[0].match: is not a regular expression: missing ), unterminated subpattern at position 0",
    ),
    "replacement": (
        MINIMAL + "clients: {map: [{match: 'a', replace: '\\1'}]}\n",
        "p.yml:3: clients.map[0].replace: does not fit match: invalid group reference 1 at position 1",
    ),
}


SECONDS = pytest.mark.slow  # a hundred thousand values are read


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=SECONDS) if case == "too many values" else case
        for case in BAD_FILES
    ],
)
def test_a_bad_file_gets_one_exact_line(case: str, write: Write) -> None:
    content, expected = BAD_FILES[case]
    path = write(content)
    (path.parent / "empty").write_text("\n")
    (path.parent / "large").write_text("x" * 5000)
    (path.parent / "binary").write_bytes(b"\xff\xfe")
    assert refusal(path) == [expected]


def test_all_problems_are_told_at_once_in_the_order_of_the_file(write: Write) -> None:
    path = write(
        "interval: 5x\n"
        "brokers:\n"
        "- {name: a, kind: artemis, url: 'ftp://h'}\n"
        "- {name: a, kind: artemis, url: 'http://h/', pagerows: 5}\n"
        "- \n"
        "rules: [{kind: x, owner: 1}]\n"
        "rules: []\n"
    )
    assert [line.split(": ")[0:2] for line in refusal(path)] == [
        ["p.yml:1", "interval"],
        ["p.yml:3", "brokers[0].url"],
        ["p.yml:4", "brokers[1].name"],
        ["p.yml:4", "brokers[1].pagerows"],
        ["p.yml:5", "brokers[2]"],
        ["p.yml:6", "rules[0].owner"],
        ["p.yml:6", "rules[0].kind"],
        ["p.yml:7", "rules"],
    ]


def test_the_number_of_problems_told_is_bounded(write: Write) -> None:
    lines = refusal(write(MINIMAL + "".join(f"k{n}: 1\n" for n in range(60))))
    assert len(lines) == 51
    assert lines[-1] == "p.yml: and 10 more"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"cannot read .*none\.yml: No such file or directory; give .*--config\.file",
    ):
        load(tmp_path / "none.yml")


def test_every_key_read(write: Write) -> None:
    path = write(
        "interval: 1m30s\ntimeout: 20\ntemporary_queues: each\n"
        "series: {consumers_per_broker: 1, consumers_per_queue: 2, clients: 3, connections: 4}\n"
        "clients: {map: [{match: '^(a).*', replace: '\\1'}]}\n"
        "brokers:\n"
        "- name: ${POD}-1\n  kind: artemis\n  url: https://${HOST}/console/jolokia\n"
        "  username: u$$er\n  password_file: secret\n  origin: http://h:1/\n"
        "  tls: {ca_file: ca, cert_file: ca, key_file: ca, insecure: no, server_name: s}\n"
        "  interval: 10s\n  timeout: 9500ms\n  page_rows: 7\n  max_answer: 1.5MiB\n"
        "  include: [{address: 'a.#'}]\n  exclude: [{queue: 'a.b'}]\n"
        "rules:\n- match: {broker: b, address: a, queue: q, client: c}\n"
        "  owner: o\n  team: t\n  kind: link\n  ignore: no\n"
    )
    (path.parent / "secret").write_text("two\nlines\r\n")
    (path.parent / "ca").write_text("x")
    config = load(path, {"POD": "pod", "HOST": "h:8161"})
    (only,) = config.brokers
    assert (config.interval, config.timeout, config.temporary_queues) == (
        90,
        20,
        TemporaryQueues.EACH,
    )
    assert config.series.model_dump() == {
        "consumers_per_broker": 1,
        "consumers_per_queue": 2,
        "clients": 3,
        "connections": 4,
    }
    assert (config.clients.map[0].match, config.clients.map[0].replace) == (
        "^(a).*",
        r"\1",
    )
    assert (only.name, only.kind, only.transport) == (
        "pod-1",
        "artemis",
        Transport.JOLOKIA,
    )
    assert (only.url, only.username, only.origin) == (
        "https://h:8161/console/jolokia",
        "u$er",
        "http://h:1",
    )
    assert only.password() == "two\nlines"
    assert only.tls.ca_file == path.parent / "ca"
    assert (only.tls.insecure, only.tls.server_name) == (False, "s")
    assert (config.interval_of(only), config.timeout_of(only)) == (10, 9.5)
    assert (only.page_rows, only.max_answer) == (7, 3 * 2**19)
    wants = only.selection()
    assert [wants("a", "q"), wants("a.b", "a.b"), wants("b", "q")] == [
        True,
        False,
        False,
    ]
    resolved = config.compiled_rules().resolve("b", "a", "q", "c")
    assert (resolved.owner, resolved.team, resolved.kind, resolved.ignore) == (
        "o",
        "t",
        QueueKind.LINK,
        False,
    )


@pytest.mark.parametrize(
    ("top", "own", "expected"),
    [
        ("", "", (15, 14.5)),
        ("timeout: 3s\n", "", (15, 3)),
        ("timeout: 3s\n", "timeout: 4s", (15, 4)),
        ("timeout: 3s\n", "interval: 2s", (2, 1.5)),
        ("timeout: 3s\n", "interval: 5s", (5, 3)),
        ("interval: 20s\n", "", (20, 19.5)),
    ],
)
def test_deadline_of_a_poll(
    top: str, own: str, expected: tuple[float, float], write: Write
) -> None:
    config = load(write(f"{top}{broker(GOOD + own)}"))
    assert (
        config.interval_of(config.brokers[0]),
        config.timeout_of(config.brokers[0]),
    ) == expected


def test_brokers_may_share_keys_by_merging(write: Write) -> None:
    text = broker(f"{GOOD}username: u\npassword: x\n").replace("- name", "- &b\n  name")
    config = load(write(text + "- {<<: *b, name: b2, username: v}\n"))
    assert [(one.name, one.username, one.url) for one in config.brokers] == [
        ("b1", "u", URL),
        ("b2", "v", URL),
    ]


@pytest.mark.parametrize(
    ("kind", "more", "url"),
    [
        ("artemis", "", "https://[fe80::1ZONE]:8161/console/jolokia/"),
        ("openmq", ", transport: jmx", "mq://[fe80::1ZONE]:7676"),
    ],
)
def test_the_zone_of_an_address_may_be_written_as_in_a_url(
    kind: str, more: str, url: str, write: Write
) -> None:
    escaped = url.replace("ZONE", "%25eth0")
    (broker,) = load(
        write(f"brokers: [{{name: a, kind: {kind}{more}, url: '{escaped}'}}]\n")
    ).brokers
    assert broker.url == url.replace("ZONE", "%eth0")
    if kind == "openmq":
        assert broker.port_mapper_at() == ("fe80::1%eth0", 7676)


def test_the_zone_of_a_port_mapper(write: Write) -> None:
    more = "url: 'http://h:7777/jolokia/', port_mapper: '[fe80::1%25eth0]:7676'"
    (broker,) = load(write(f"brokers: [{{name: a, kind: openmq, {more}}}]\n")).brokers
    assert broker.port_mapper_at() == ("fe80::1%eth0", 7676)


def test_a_recording_stands_beside_the_configuration(write: Write) -> None:
    path = write(broker("kind: artemis\ntransport: recording\nurl: recording:r.gz\n"))
    (path.parent / "r.gz").write_bytes(b"")
    only = load(path).brokers[0]
    assert only.recording == path.parent / "r.gz"
    assert load(write(MINIMAL)).brokers[0].recording is None


def test_a_rotated_password_is_seen(write: Write) -> None:
    path = write(broker(f"{GOOD}username: u\npassword_file: secret\n"))
    secret = path.parent / "secret"
    secret.write_text("one\n")
    only = load(path).brokers[0]
    secret.write_text("two")
    assert only.password() == "two"
    secret.unlink()
    with pytest.raises(
        ConfigError,
        match=r"broker b1: password_file: cannot read .*secret: No such file",
    ):
        only.password()


def test_dollars(write: Write) -> None:
    path = write(broker(f"{GOOD}username: u\npassword: a$b$$c$${{D}}${{E}}\n"))
    assert load(path, {"E": "${F}$$"}).brokers[0].password() == "a$b$c${D}${F}$$"


def test_a_variable_that_is_no_text(write: Write) -> None:
    path = write(broker(f"{GOOD}username: u\npassword: ${{PW}}\n"))
    assert refusal(path, {"PW": f"{CANARY}\udcff"}) == [
        "p.yml:6: brokers[0].password: environment variable PW is not UTF-8 text"
    ]
    assert (
        load(path, {"PW": "pässwörd\ufffd"}).brokers[0].password() == "pässwörd\ufffd"
    )


def test_environment_is_read_in_declared_fields_only(write: Write) -> None:
    config = load(write(MINIMAL + "rules: [{owner: '${HOME}'}]\n"), {})
    assert config.rules[0].owner == "${HOME}"


def test_masked_yaml_round_trip(write: Write) -> None:
    path = write(
        "interval: 1500ms\ntimeout: 1\n"
        + broker(f"{GOOD}username: a$$b$${{C}}\nmax_answer: 1MiB\ninterval: 1h\n")
        + "rules: [{match: {queue: 'x.*'}, ignore: true, kind: link}]\n"
    )
    config = load(path)
    assert load(write(config.masked_yaml())) == config


def test_no_text_of_the_configuration_shows_a_secret(write: Write) -> None:
    path = write(
        broker(f"{GOOD}username: u\npassword: {CANARY}\n")
        + f"- {{name: c, kind: artemis, url: '{URL}', username: u, password: '${{PW}}'}}\n"
    )
    config = load(path, {"PW": CANARY})
    assert [one.password() for one in config.brokers] == [CANARY, CANARY]
    only = config.brokers[0]
    for text in (
        repr(config),
        str(config),
        repr(only),
        repr(only.inline_password),
        str(only.inline_password),
        config.masked_yaml(),
        config.model_dump_json(),
        repr(vars(only)),
    ):
        assert CANARY not in text
    assert config.masked_yaml().count("password: <secret>") == 2


UNFIT_PASSWORDS = [
    *(
        f"{start}{CANARY}"
        for start in (
            "*",
            "!",
            "%",
            "@",
            "'",
            '"',
            "`",
            "|",
            "- ",
            "a: ",
            "| ",
            "\t",
            "!!int ",
            "!!binary ",
        )
    ),
    f"!{CANARY}!x y",
    f"&{CANARY} &{CANARY} x",
    f"[{CANARY}]",
    f"{{{CANARY}: 1}}",
    f'"\\x{CANARY}"',
    f"'{CANARY}\\",
    f"{CANARY}\n   x: {CANARY}",
    f"{CANARY}\n{CANARY}",
    f"{CANARY}\n\t{CANARY}",
    f"x${{{CANARY}}}",
    f"${{OTHER}}{CANARY}",
    f"{CANARY}\n  url: http://u:{CANARY}@h/",
    f"{CANARY}\n  password: {CANARY}",
]


@pytest.mark.parametrize("value", UNFIT_PASSWORDS)
def test_no_error_shows_a_secret(value: str, write: Write) -> None:
    path = write(
        f"brokers:\n- name: b\n  kind: artemis\n  url: {URL}\n  username: u\n  interval: wrong\n  password: {value}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_value_given_to_pydantic_directly_is_not_shown_either() -> None:
    with pytest.raises(ValueError, match="validation error") as caught:
        Broker.model_validate(
            {
                "name": "b",
                "kind": "artemis",
                "url": f"http://u:{CANARY}@h",
                "password": [CANARY],
            }
        )
    assert CANARY not in str(caught.value)


KEYS = st.sampled_from(
    [
        *Config.model_fields,
        *Broker.model_fields,
        "password",
        "map",
        "match",
        "replace",
        "owner",
    ]
)
SCALARS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "15s",
            "artemis",
            URL,
            "${X}",
            "*a",
            "&a",
            "!t x",
            "<<",
            "1:30",
            "0x_",
            "2001-99-99",
            "!!int _",
            "=",
            "~",
            "\t",
        ]
    ),
    st.integers().map(str),
)
YAMLS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(st.one_of(KEYS, SCALARS), inner), max_size=4).map(
            lambda pairs: (
                "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
            )
        ),
    ),
    max_leaves=12,
)


@pytest.mark.slow  # a property of any bytes
@settings(
    max_examples=3 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")),
        YAMLS.map(lambda t: t.encode("utf-8", "replace")),
    )
)
@example(content=b"interval: !!int")
@example(content=b"? ? ? ? ?")
@example(content=b"interval: " + b"9" * 5000)
@example(content=b"interval: 1:" + b"9" * 400 + b".0")
@example(content=b'"\\UFFFFFFFF": 1')
@example(content=b"%YAML 99.1\n--- {}")
@example(content=b"interval: 2001-99-99")
def test_whatever_the_bytes_a_config_or_a_config_error(
    content: bytes, write: Write
) -> None:
    path = write(content)
    try:
        load(path, {}).masked_yaml()
    except ConfigError as error:
        lines = str(error).splitlines()
    else:
        lines = [f"{path}:"]
    assert all(line.startswith(f"{path}:") for line in lines)


def test_budgets_of_a_broker_stand_for_the_general_ones_key_by_key(
    tmp_path: Path,
) -> None:
    file = tmp_path / "p.yml"
    file.write_text(
        "budgets: {queues: 10, series: 2000, label_length: 100}\n"
        "brokers:\n"
        "- {name: a, kind: artemis, url: 'http://h/', budgets: {queues: 20, listing_bytes: 2MiB}}\n"
        "- {name: b, kind: artemis, url: 'http://h/'}\n"
    )
    config = load(file)
    a, b = (config.budgets_of(broker) for broker in config.brokers)
    assert (a.queues, a.series, a.label_length, a.listing_bytes) == (
        20,
        2000,
        100,
        2 * 2**20,
    )
    assert (b.queues, b.series, b.rows().queues, b.rows().consumers) == (
        10,
        2000,
        10,
        RowBudgets().consumers,
    )
    assert policy_of(config, config.brokers[0]).limits == Limits(
        series=2000, label_length=100
    )
    assert yaml.safe_load(config.masked_yaml())["brokers"][0]["budgets"] == {
        "queues": 20,
        "listing_bytes": "2MiB",
    }


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("{queues: 0}", "budgets.queues: must be at least 1"),
        ("{label_length: 10}", "budgets.label_length: must be at least 64"),
        ("{listing_bytes: 1KiB}", "budgets.listing_bytes: must be at least 1MiB"),
        ("{topics: 1}", "budgets.topics: unknown key"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(
    tmp_path: Path, said: str, error: str
) -> None:
    assert error in error_of(tmp_path / "p.yml", MINIMAL + f"budgets: {said}\n")
