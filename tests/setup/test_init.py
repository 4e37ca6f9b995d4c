"""`penstock init` on files as `artemis create` writes them, and on others that operators have."""

import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.config import load
from penstock.setup.artemis import hashed_password
from penstock.setup.changes import RECORD

NO_PROXY = "-Djolokia.disabledServices=org.jolokia.service.jsr160.Jsr160RequestHandler"

MANAGEMENT = """<management-context xmlns="http://activemq.apache.org/schema">
   <authorisation>
      <role-access>
         <match domain="org.apache.activemq.artemis">
            <access method="list*" roles="amq"/>
            <access method="get*" roles="amq"/>
            <access method="is*" roles="amq"/>
            <access method="set*" roles="amq"/>
            <access method="*" roles="amq"/>
         </match>
         <!--<match domain="org.apache.activemq.artemis" key="subcomponent=queues">
            <access method="list*" roles="view,amq"/>
         </match>-->
      </role-access>
   </authorisation>
</management-context>"""
FILES = {
    "broker.xml": "<configuration><core><!-- <name>old</name> --><name>b1</name></core></configuration>",
    "bootstrap.xml": '<broker><web path="web"><!-- uri="http://old:1" --><binding uri="http://127.0.0.1:8161"/></web></broker>',
    "artemis-users.properties": "admin = ENC(1024:AA:BB)",
    "artemis-roles.properties": "amq = admin",
    "artemis.profile": "# HAWTIO_ROLES says who\nHAWTIO_ROLES='amq'\n",
    "management.xml": MANAGEMENT,
    "jolokia-access.xml": "<restrict><cors><allow-origin>*://127.0.0.1*</allow-origin><strict-checking/></cors></restrict>",
    "login.config": "activemq { org.x.PropertiesLoginModule required\n"
    '  org.apache.activemq.jaas.properties.user="artemis-users.properties"\n};',
}


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    etc = tmp_path / "b1" / "etc"
    etc.mkdir(parents=True)
    for name, text in FILES.items():
        (etc / name).write_text(text)
    (etc / "artemis-users.properties").chmod(0o640)
    return tmp_path / "b1"


def init(directory: Path, *more: str, answer: str = "y\n") -> Result:
    config = directory.parent / "penstock.yaml"
    return CliRunner().invoke(
        main,
        ["init", str(directory), "--config.file", str(config), *more],
        input=answer,
    )


def contents(directory: Path) -> Mapping[str, tuple[bytes, int]]:
    return {
        str(f): (f.read_bytes(), f.stat().st_mode)
        for f in sorted(directory.rglob("*"))
        if f.is_file()
    }


def read(broker: Path, name: str) -> str:
    return (broker / "etc" / name).read_text()


def test_the_account_is_made_and_the_configuration_takes_it(broker: Path) -> None:
    made = init(broker)
    assert made.exit_code == 0, made.output
    (only,) = load(broker.parent / "penstock.yaml", {}).brokers
    assert (only.name, only.url, only.username) == (
        "b1",
        "http://127.0.0.1:8161/console/jolokia/",
        "exporter",
    )
    password = only.password() or ""
    users = read(broker, "artemis-users.properties").splitlines()
    assert users[0] == "admin = ENC(1024:AA:BB)"
    assert users[1].startswith("exporter = ENC(1024:")
    assert password not in made.output
    assert users[1] not in made.output
    assert (
        read(broker, "artemis-roles.properties") == "amq = admin\nexporter = exporter\n"
    )
    assert "HAWTIO_ROLES='amq,exporter'\n" in read(broker, "artemis.profile")
    assert read(broker, "artemis.profile").endswith(
        f'\nJAVA_ARGS="$JAVA_ARGS {NO_PROXY}"\n'
    )
    assert read(broker, "jolokia-access.xml") == FILES["jolokia-access.xml"]
    assert only.password_file is not None
    assert stat.S_IMODE(only.password_file.stat().st_mode) == 0o600
    assert (
        stat.S_IMODE((broker / "etc/artemis-users.properties").stat().st_mode) == 0o640
    )


def test_the_rights_are_those_of_the_documentation(broker: Path) -> None:
    init(broker)
    page = (Path(__file__).parents[2] / "docs" / "artemis.md").read_text()
    documented = [
        line.strip()
        for line in page.partition("```xml\n")[2].partition("```")[0].splitlines()
    ]
    assert [
        line.strip() for line in read(broker, "management.xml").splitlines()[3:16]
    ] == documented


def test_a_second_run_changes_nothing_and_undo_everything(broker: Path) -> None:
    before = contents(broker.parent)
    assert "penstock.yaml" in init(broker).output
    after = contents(broker.parent)
    assert init(broker).output == "nothing to change\n"
    assert contents(broker.parent) == after
    undone = init(broker, "--undo")
    assert undone.exit_code == 0, undone.output
    assert contents(broker.parent) == before


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_nothing_is_written_before_it_is_agreed(broker: Path, more: list[str]) -> None:
    before = contents(broker.parent)
    shown = init(broker, *more, answer="n\n")
    assert "+exporter = exporter" in shown.output
    assert contents(broker.parent) == before


def test_undo_leaves_what_was_changed_since(broker: Path) -> None:
    init(broker)
    profile = broker / "etc" / "artemis.profile"
    profile.write_text(profile.read_text() + "JAVA_ARGS=-Xmx2G\n")
    undone = init(broker, "--undo")
    assert undone.exit_code == 1
    assert "changed since penstock init" in undone.output
    assert "-Xmx2G" in profile.read_text()
    assert read(broker, "artemis-roles.properties") == "amq = admin"
    assert (broker / "etc" / RECORD).exists()


def test_other_rights_stay_and_no_order_of_them_lets_messages_be_read(
    broker: Path,
) -> None:
    own = '<access method="getFirstMessageAsJSON" roles="audit,exporter"/><access method="list*" roles="amq,view"/>'
    own += (
        '<access method="count*" roles="amq,exporter"/><access method="*" roles="amq"/>'
    )
    text = MANAGEMENT.replace(
        MANAGEMENT[
            MANAGEMENT.index("<access") : MANAGEMENT.index("\n         </match>")
        ],
        own,
    )
    (broker / "etc/management.xml").write_text(text)
    init(broker)
    rules = read(broker, "management.xml").partition("</match>")[0]
    order = [line.split('"')[1::2] for line in rules.splitlines() if "<access" in line]
    assert order[0] == ["getFirstMessageAsJSON", "audit"]
    assert ["listMessages*", "amq,view"] in order
    assert order.index(["listMessages*", "amq,view"]) < order.index(
        ["list*", "amq,view,exporter"]
    )
    assert ["count*", "amq"] in order
    assert order[-1] == ["*", "amq"]


@pytest.mark.parametrize("roles", ["", "*"])
def test_a_console_for_every_role_is_left_open(broker: Path, roles: str) -> None:
    (broker / "etc/artemis.profile").write_text(f"HAWTIO_ROLES='{roles}'\n")
    assert init(broker, "--keep-proxy").exit_code == 0
    assert read(broker, "artemis.profile") == f"HAWTIO_ROLES='{roles}'\n"


@pytest.mark.parametrize(
    ("java_args", "made"),
    [
        (f'JAVA_ARGS="-Xmx2G {NO_PROXY}"', f'JAVA_ARGS="-Xmx2G {NO_PROXY}"'),
        (
            "JAVA_ARGS='-Djolokia.disabledServices=a.B,c.D'",
            f"JAVA_ARGS='{NO_PROXY},a.B,c.D'",
        ),
        (
            "JAVA_ARGS='-Djolokia.disabledServices= -Xmx2G'",
            f"JAVA_ARGS='{NO_PROXY} -Xmx2G'",
        ),
        (f"# {NO_PROXY}", None),
    ],
)
def test_a_jolokia_without_some_services_loses_the_proxy_once(
    broker: Path, java_args: str, made: str | None
) -> None:
    (broker / "etc/artemis.profile").write_text(f"HAWTIO_ROLES='amq'\n{java_args}\n")
    init(broker)
    line, *others = read(broker, "artemis.profile").splitlines()[1:]
    if made is None:
        assert (line, others[-1]) == (java_args, f'JAVA_ARGS="$JAVA_ARGS {NO_PROXY}"')
        return
    assert (line, others) == (made, [])


def test_files_of_windows_are_read_and_keep_their_form(broker: Path) -> None:
    """Line ends of Windows, and the byte order mark that its editors write."""
    etc = broker / "etc"
    config = broker.parent / "penstock.yaml"
    secret = broker.parent / "secret.txt"
    secret.write_bytes(b"\xef\xbb\xbfright\r\n")
    users = f"\ufeffadmin = x\r\nexporter = {hashed_password('right')}\r\n".encode()
    (etc / "artemis-users.properties").write_bytes(users)
    (etc / "artemis-roles.properties").write_bytes(b"amq = admin\r\n")
    before = "\ufeffbrokers:\r\n- name: a\r\n  kind: artemis\r\n  url: http://a/\r\n"
    config.write_bytes(before.encode())
    made = init(broker, "--password.file", str(secret))
    assert made.exit_code == 0, made.output
    assert (etc / "artemis-users.properties").read_bytes() == users
    assert (
        etc / "artemis-roles.properties"
    ).read_bytes() == b"amq = admin\r\nexporter = exporter\r\n"
    assert config.read_bytes().startswith(b"\xef\xbb\xbfbrokers:\r\n- name: b1\r\n")
    assert b"\n" not in config.read_bytes().replace(b"\r\n", b"")
    first, second = load(config, {}).brokers
    assert (first.password(), second.name) == ("right", "a")
    assert init(broker, "--password.file", str(secret)).output == "nothing to change\n"
    assert init(broker, "--undo").exit_code == 0
    assert config.read_bytes() == before.encode()


def test_a_configuration_that_is_none_is_exit_status_2(broker: Path) -> None:
    (broker.parent / "penstock.yaml").write_text("[]\n")
    refused = init(broker)
    assert refused.exit_code == 2
    assert "is no configuration of Penstock" in refused.output


@pytest.mark.parametrize("words", [[], ["--url", "http://b:8161/other/"]])
def test_a_command_that_names_no_broker_is_exit_status_2(words: list[str]) -> None:
    assert CliRunner().invoke(main, ["init", *words]).exit_code == 2


def test_an_origin_that_is_not_allowed_is_added(broker: Path) -> None:
    (broker / "etc/bootstrap.xml").write_text(
        '<web><binding uri="https://[::1]:8443"/></web>'
    )
    init(broker)
    assert "<allow-origin>*://[::1]*</allow-origin>" in read(
        broker, "jolokia-access.xml"
    )
    assert (
        "https://[::1]:8443/console/jolokia/"
        in (broker.parent / "penstock.yaml").read_text()
    )


def test_a_second_broker_joins_the_configuration(broker: Path) -> None:
    config = broker.parent / "penstock.yaml"
    config.write_text(
        "# ours\ninterval: 30s\nbrokers:\n- name: a\n  kind: artemis\n  url: http://a/\nrules: []\n"
    )
    init(broker)
    assert [one.name for one in load(config, {}).brokers] == ["b1", "a"]
    assert config.read_text().startswith("# ours\ninterval: 30s\n")


UNUSUAL = {
    "ldap": ("login.config", "LDAPLoginModule", "users are in no file of the broker"),
    "rbac": (
        "artemis.profile",
        "-Dx=ArtemisRbacMBeanServerBuilder",
        "rights are in broker.xml",
    ),
    "no console role": ("artemis.profile", "JAVA_ARGS=''", "has no line HAWTIO_ROLES"),
    "no rights": ("management.xml", "<management-context/>", "has no <match"),
    "user": (
        "artemis-users.properties",
        "exporter = other\n",
        "is there already, with another password",
    ),
    "role": (
        "artemis-roles.properties",
        "exporter = a,b\n",
        "is there already, for others",
    ),
    "no address": (
        "bootstrap.xml",
        '<web><binding uri="${web}"/></web>',
        "names no address of the console",
    ),
    "not text": ("artemis.profile", "\udcff", "it is not UTF-8"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_it_does_not_know_it_refuses_and_leaves_alone(
    broker: Path, name: str
) -> None:
    file, text, why = UNUSUAL[name]
    (broker / "etc" / file).write_text(text, errors="surrogateescape")
    before = contents(broker.parent)
    refused = init(broker)
    assert refused.exit_code == 1
    assert why in refused.output
    assert contents(broker.parent) == before


def test_a_configuration_that_cannot_be_added_to_is_left_with_what_to_add(
    broker: Path,
) -> None:
    config = broker.parent / "penstock.yaml"
    config.write_text("brokers: [{name: a, kind: artemis, url: 'http://a/'}]\n")
    refused = init(broker)
    assert refused.exit_code == 2
    assert "- name: b1" in refused.output
    assert "[{name: a" in config.read_text()


def test_a_user_with_the_password_that_is_given_is_taken_as_it_is(broker: Path) -> None:
    users = broker / "etc/artemis-users.properties"
    users.write_text(f"exporter = {hashed_password('right')}\n")
    secret = broker.parent / "secret.txt"
    secret.write_text("right\n")
    before = users.read_text()
    made = init(broker, "--password.file", str(secret))
    assert made.exit_code == 0, made.output
    assert users.read_text() == before


def test_what_is_no_broker_is_refused(tmp_path: Path) -> None:
    refused = init(tmp_path)
    assert refused.exit_code == 1
    assert (
        "has no etc/broker.xml of Artemis, conf/activemq.xml or bin/imqbrokerd of OpenMQ"
        in refused.output
    )


def test_an_openmq_gets_policy_and_options(tmp_path: Path) -> None:
    (tmp_path / "mq" / "bin").mkdir(parents=True)
    (tmp_path / "mq" / "bin" / "imqbrokerd").touch()
    made = init(tmp_path / "mq")
    assert made.exit_code == 0, made.output
    options = dict(
        line.split("=", 1)
        for line in (tmp_path / "jolokia.properties").read_text().splitlines()
    )
    assert options["password"] == (tmp_path / "openmq.password").read_text().strip()
    assert options["password"] not in made.output
    assert (
        options["disabledServices"] == "org.jolokia.service.jsr160.Jsr160RequestHandler"
    )
    assert options["policyLocation"] == (tmp_path / "openmq-policy.xml").as_uri()
    assert stat.S_IMODE((tmp_path / "jolokia.properties").stat().st_mode) == 0o600
    assert (
        yaml.safe_load((tmp_path / "penstock.yaml").read_text())["brokers"][0]["kind"]
        == "openmq"
    )
    assert init(tmp_path / "mq").output == "nothing to change\n"
    assert init(tmp_path / "mq", "--undo").exit_code == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mq"]


# --- ActiveMQ Classic


@pytest.fixture
def classic(tmp_path: Path) -> Path:
    conf = tmp_path / "c1" / "conf"
    conf.mkdir(parents=True)
    (conf / "activemq.xml").write_text(
        '<beans><broker brokerName="shop"></broker></beans>'
    )
    (conf / "jetty.xml").write_text(
        '<property name="host" value="127.0.0.1"/>\n<property name="port" value="8999"/>'
    )
    (conf / "jetty-realm.properties").write_text(
        "admin: admin, admin\npenstock: old, admin"
    )
    return tmp_path / "c1"


def test_a_classic_gets_an_account_and_the_policy(
    classic: Path, tmp_path: Path
) -> None:
    before = contents(classic)
    made = init(classic, "--yes")
    assert made.exit_code == 0, made.output
    entry = yaml.safe_load((tmp_path / "penstock.yaml").read_text())["brokers"][0]
    assert (entry["name"], entry["kind"], entry["username"]) == (
        "shop",
        "classic",
        "penstock",
    )
    assert entry["url"] == "http://127.0.0.1:8999/api/jolokia/"
    password = (tmp_path / "shop.password").read_text().strip()
    realm = (classic / "conf" / "jetty-realm.properties").read_text()
    hashed = hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()
    assert realm == f"admin: admin, admin\npenstock: MD5:{hashed}, user\n"
    assert password not in made.output
    assert hashed not in made.output
    policy = (classic / "conf" / "jolokia-access.xml").read_text()
    assert policy == CliRunner().invoke(main, ["policy", "--kind", "classic"]).output
    assert "<command>exec</command>" not in policy
    assert init(classic, "--yes").output == "nothing to change\n"
    assert init(classic, "--undo").exit_code == 0
    assert contents(classic) == before


def test_a_classic_whose_accounts_are_elsewhere_says_so(classic: Path) -> None:
    (classic / "conf" / "jetty-realm.properties").unlink()
    refused = init(classic, "--yes")
    assert refused.exit_code != 0
    assert "is not there; see docs/classic.md for what to add by hand" in refused.output
    assert not (classic / "conf" / "jolokia-access.xml").exists()


def test_of_a_url_only_our_own_files_are_made(tmp_path: Path) -> None:
    """The broker's are on its machine: what to run there is said; twice, and taken back."""
    config = tmp_path / "penstock.yaml"
    by_url = (
        "init",
        "--url",
        "http://broker:8161/console/jolokia/",
        "--name",
        "b1",
        "--config.file",
        str(config),
    )
    made = CliRunner().invoke(main, [*by_url, "--yes"])
    assert made.exit_code == 0, made.output
    (only,) = load(config, {}).brokers
    assert (only.name, only.kind, only.username) == ("b1", "artemis", "exporter")
    assert {file.name for file in tmp_path.iterdir()} == {
        "penstock.yaml",
        "b1.password",
        RECORD,
    }
    assert (
        "penstock init DIRECTORY --user exporter --password.file b1.password"
        in made.output
    )
    assert "docs/artemis.md" in made.output
    assert (only.password() or "") not in made.output
    assert CliRunner().invoke(main, [*by_url, "--yes"]).output == "nothing to change\n"
    assert CliRunner().invoke(main, [*by_url, "--undo"]).exit_code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "kind"),
    [("http://b:8161/api/jolokia/", "classic"), ("http://b:8778/jolokia/", "openmq")],
)
def test_the_kind_of_a_url(url: str, kind: str, tmp_path: Path) -> None:
    config = tmp_path / "penstock.yaml"
    made = CliRunner().invoke(
        main, ["init", "--url", url, "--config.file", str(config), "--yes"]
    )
    assert made.exit_code == 0, made.output
    assert [(one.kind, one.username) for one in load(config, {}).brokers] == [
        (kind, "penstock")
    ]


def test_a_url_that_no_kind_of_broker_has_is_no_openmq(tmp_path: Path) -> None:
    for url in ("http://b:8161", "http://b:8161/hawtio/jolokia/", "b:8161/console"):
        refused = CliRunner().invoke(
            main,
            ["init", "--url", url, "--config.file", str(tmp_path / "p.yaml"), "--yes"],
        )
        assert refused.exit_code == 2
        assert "it ends in /console/jolokia/ (Artemis)" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_two_brokers_by_their_urls_have_two_names(tmp_path: Path) -> None:
    config = tmp_path / "penstock.yaml"
    by_url = ("init", "--config.file", str(config), "--yes", "--url")
    for url in ("http://mq1:8161/console/jolokia/", "http://mq2:8161/console/jolokia/"):
        assert CliRunner().invoke(main, [*by_url, url]).exit_code == 0
    assert {one.name for one in load(config, {}).brokers} == {"mq1", "mq2"}
    before = config.read_text()
    taken = CliRunner().invoke(main, [*by_url, "http://mq1:8162/console/jolokia/"])
    assert taken.exit_code == 2
    assert "has another broker called mq1; give this one another --name" in taken.output
    assert config.read_text() == before


def test_neither_directory_nor_url(tmp_path: Path) -> None:
    refused = CliRunner().invoke(
        main, ["init", "--config.file", str(tmp_path / "penstock.yaml")]
    )
    assert refused.exit_code == 2
    assert "give --url" in refused.output
