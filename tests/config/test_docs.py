"""docs/configuration.md against the models, in both directions, and its example against the loader."""

import re
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from penstock.config import (
    Broker,
    Config,
    DnsTarget,
    History,
    Profile,
    Target,
    json_schema,
    load,
    load_targets,
)
from penstock.config.broker import Budgets, QueueMatch, Tls
from penstock.config.discovery import Discovery, FileTargets
from penstock.config.model import (
    ClientName,
    Clients,
    Judgement,
    NormalTimes,
    Rule,
    RuleMatch,
    Series,
)
from penstock.config.section import Section
from penstock.config.values import Reading
from rig.each import of_each

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
SECTIONS: dict[str, type[Section]] = {
    "config": Config,
    "broker": Broker,
    "discovery": Discovery,
    "profile": Profile,
    "dns target": DnsTarget,
    "file targets": FileTargets,
    "target": Target,
    "tls": Tls,
    "queue match": QueueMatch,
    "rule": Rule,
    "rule match": RuleMatch,
    "judgement": Judgement,
    "series": Series,
    "budgets": Budgets,
    "clients": Clients,
    "client name": ClientName,
    "normal times": NormalTimes,
    "history": History,
}


def documented(section: str) -> dict[str, str]:
    """Key → the rest of its line, of the grammar under a heading."""
    grammar = re.search(
        rf"^## `<{section}>`.*?^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
    )
    assert grammar, section
    return dict(re.findall(r"^(\w+): (.*)$", grammar[1], re.MULTILINE))


def fields_of(model: type[Section]) -> dict[str, FieldInfo]:
    """By the keys of the file; of a profile those that are not a broker's."""
    fields = model.model_fields.items()
    return {
        field.alias or key: field
        for key, field in fields
        if model is not Profile or key in model.__annotations__
    }


@of_each({section: section for section in SECTIONS})
def test_every_key_is_documented_and_nothing_else(section: str) -> None:
    assert set(documented(section)) == set(fields_of(SECTIONS[section]))


@of_each({section: section for section in SECTIONS})
def test_defaults_are_those_of_the_code(section: str) -> None:
    defaults = Config.model_validate(
        {
            "brokers": [{"name": "b", "kind": "artemis", "url": "http://h/"}],
            "rules": [{}],
            "clients": {"map": [{"match": "a", "replace": ""}]},
            "discovery": {
                "profiles": {"p": {"kind": "artemis", "url": "http://{host}/"}},
                "dns": [{"dns": "d", "profile": "p"}],
                "files": [{"files": ["f"], "profiles": ["p"]}],
            },
        },
        context=Reading(),
    )
    profiles = defaults.discovery.profiles
    target = Target.model_validate(
        {"name": "n", "host": "h"}, context=Reading(profiles=profiles)
    )
    examples = {
        "config": defaults, "broker": defaults.brokers[0], "discovery": defaults.discovery,
        "profile": profiles["p"], "dns target": defaults.discovery.dns[0],
        "file targets": defaults.discovery.files[0], "target": target, "tls": Tls(),
        "queue match": QueueMatch(), "rule": Rule(),
        "rule match": RuleMatch(), "judgement": Judgement(), "series": Series(), "budgets": Budgets(),
        "clients": Clients(), "client name": defaults.clients.map[0],
        "normal times": NormalTimes(), "history": History(),
    }  # fmt: skip
    written = examples[section].model_dump(mode="json", by_alias=True)
    for key, line in documented(section).items():
        field = fields_of(SECTIONS[section])[key]
        said = (
            line.split("#")[0].rpartition(" = ")[2].strip() if " = " in line else None
        )
        if field.default is PydanticUndefined:
            assert said is None, key
        elif isinstance(written[key], str | int | bool):
            assert said is not None
            assert said.strip('"') == str(written[key]).replace("True", "true").replace(
                "False", "false"
            ), key


def test_no_section_is_left_out() -> None:
    headings = re.findall(r"^## `<(.*?)>`", PAGE, re.MULTILINE)
    assert headings == list(SECTIONS)
    assert set(json_schema()["$defs"]) >= {
        model.__name__ for model in SECTIONS.values()
    } - {"Config", "Target"}


def test_the_example_loads(tmp_path: Path) -> None:
    example = re.search(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert example
    (tmp_path / "p.yml").write_text(example[1])
    (tmp_path / "secret.txt").write_text("x\n")
    (tmp_path / "ca.pem").write_text("x\n")
    config = load(tmp_path / "p.yml", {"PENSTOCK_PASSWORD": "y"})
    assert [broker.password() for broker in config.brokers] == ["y", "x"]
    assert config.compiled_rules().resolve("b1", "a", "q", "load-test-7").ignore


def test_the_example_of_discovery_fits_its_file(tmp_path: Path) -> None:
    _, discovery, targets = re.findall(
        r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
    )
    (tmp_path / "p.yml").write_text(discovery)
    (tmp_path / "secret.txt").write_text("x\n")
    (tmp_path / "found.yml").write_text(targets)
    config = load(tmp_path / "p.yml", {"ARTEMIS_PASSWORD": "y"}).discovery
    allowed = {name: config.profiles[name] for name in config.files[0].profiles}
    found = [
        target.broker(allowed)
        for target in load_targets(tmp_path / "found.yml", allowed)
    ]
    assert [one.url for one in found] == [
        "https://10.0.0.7:8161/console/jolokia/",
        "https://mq-2.example.com:8161/console/jolokia/",
    ]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_schema_describes_every_key_and_allows_no_other(section: str) -> None:
    model = SECTIONS[section]
    if model is Target:
        pytest.skip("in no schema: of a file of its own")
    assert [
        name for name, field in model.model_fields.items() if not field.description
    ] == []
    schema = json_schema()
    assert (schema if model is Config else schema["$defs"][model.__name__])[
        "additionalProperties"
    ] is False
