"""docs/configuration.md against the models, in both directions, and its example against the loader."""

import re
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from penstock.config import (
    Broker,
    Budgets,
    ClientName,
    Clients,
    Config,
    Discovery,
    DnsTarget,
    History,
    Judgement,
    QueueMatch,
    Rule,
    RuleMatch,
    Series,
    Tls,
    json_schema,
    load,
)
from penstock.config.model import Section

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
SECTIONS: dict[str, type[Section]] = {
    "config": Config,
    "broker": Broker,
    "discovery": Discovery,
    "dns target": DnsTarget,
    "tls": Tls,
    "queue match": QueueMatch,
    "rule": Rule,
    "rule match": RuleMatch,
    "judgement": Judgement,
    "series": Series,
    "budgets": Budgets,
    "clients": Clients,
    "client name": ClientName,
    "history": History,
}


def documented(section: str) -> dict[str, str]:
    """Key → the rest of its line, of the grammar under a heading."""
    grammar = re.search(rf"^## `<{section}>`.*?^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert grammar, section
    return dict(re.findall(r"^(\w+): (.*)$", grammar[1], re.MULTILINE))


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_documented_and_nothing_else(section: str) -> None:
    fields = SECTIONS[section].model_fields
    assert set(documented(section)) == {field.alias or name for name, field in fields.items()}


@pytest.mark.parametrize("section", SECTIONS)
def test_defaults_are_those_of_the_code(section: str) -> None:
    defaults = Config.model_validate(
        {
            "brokers": [{"name": "b", "kind": "artemis", "url": "http://h/"}],
            "rules": [{}],
            "clients": {"map": [{"match": "a", "replace": ""}]},
            "discovery": {
                "dns": [{"dns": "d", "broker": {"name": "{name}", "kind": "artemis", "url": "http://{host}/"}}]
            },
        }
    )
    examples = {
        "config": defaults, "broker": defaults.brokers[0], "discovery": defaults.discovery,
        "dns target": defaults.discovery.dns[0], "tls": Tls(), "queue match": QueueMatch(), "rule": Rule(),
        "rule match": RuleMatch(), "judgement": Judgement(), "series": Series(), "budgets": Budgets(),
        "clients": Clients(), "client name": defaults.clients.map[0],
        "history": History(),
    }  # fmt: skip
    written = examples[section].model_dump(mode="json", by_alias=True)
    for key, line in documented(section).items():
        field = next(field for name, field in SECTIONS[section].model_fields.items() if (field.alias or name) == key)
        said = line.split("#")[0].rpartition(" = ")[2].strip() if " = " in line else None
        if field.default is PydanticUndefined:
            assert said is None, key
        elif isinstance(written[key], str | int | bool):
            assert said is not None
            assert said.strip('"') == str(written[key]).replace("True", "true").replace("False", "false"), key


def test_no_section_is_left_out() -> None:
    headings = re.findall(r"^## `<(.*?)>`", PAGE, re.MULTILINE)
    assert headings == list(SECTIONS)
    assert set(json_schema()["$defs"]) >= {model.__name__ for model in SECTIONS.values()} - {"Config"}


def test_the_example_loads(tmp_path: Path) -> None:
    example = re.search(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert example
    (tmp_path / "p.yml").write_text(example[1])
    (tmp_path / "secret.txt").write_text("x\n")
    (tmp_path / "ca.pem").write_text("x\n")
    config = load(tmp_path / "p.yml", {"PENSTOCK_PASSWORD": "y"})
    assert [broker.password() for broker in config.brokers] == ["y", "x"]
    assert config.compiled_rules().resolve("b1", "a", "q", "load-test-7").ignore


@pytest.mark.parametrize("section", SECTIONS)
def test_the_schema_describes_every_key_and_allows_no_other(section: str) -> None:
    model = SECTIONS[section]
    assert [name for name, field in model.model_fields.items() if not field.description] == []
    schema = json_schema()
    assert (schema if model is Config else schema["$defs"][model.__name__])["additionalProperties"] is False
