"""What is made of the declarations is what was written by hand before there were any.

`before/` has the types of listings, the schema of the history and the texts of metrics as
they were. A line there changes only with a decision to change what is shown or stored.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from penstock.brokers import rows
from penstock.brokers.artemis import answers
from penstock.exposition.catalogue import CATALOGUE, Family
from penstock.history.schema import ROW_TYPES

BEFORE = Path(__file__).with_name("before")
ALIASES = {
    str(rows.Count): "Count",
    str(rows.Flag): "Flag",
    str(rows.Int64): "Int64",
    str(rows.Millis): "Millis",
    str(rows.Setting): "Setting",
    str(str): "str",
    str(bool): "bool",
}
LISTED = (
    "AddressNumbers",
    "ConsumerNumbers",
    "ProducerListed",
    "QueueNumbers",
    "SessionListed",
)


def lines(file: str, about: str = "") -> list[str]:
    """The lines of a file of before that begin with a text."""
    everything = (BEFORE / file).read_text().splitlines()
    return [line for line in everything if line.startswith(about)]


def described(struct: str) -> Iterator[str]:
    """A line for each field of a type of rows: both names, type and default."""
    fields = msgspec.structs.fields(getattr(answers, struct))
    for field in fields:
        kind = str(field.type)
        kind = ALIASES.get(kind, kind)
        default = repr(field.default)
        if field.required:
            default = "required"
        yield f"{struct} {field.encode_name}: {field.name} {kind} = {default}"


@pytest.mark.parametrize("struct", LISTED)
def test_a_listing_is_read_as_before(struct: str) -> None:
    before = set(lines("wire.txt", f"{struct} "))
    assert before
    assert before <= set(described(struct))


@pytest.mark.parametrize("name", ROW_TYPES)
def test_the_history_has_the_columns_of_before(name: str) -> None:
    before = lines("schema.txt", f"{name} ")
    now = [f"{name} {field.name} {field.type}" for field in ROW_TYPES[name].schema]
    assert before
    assert [line for line in now if line in before] == before


@pytest.mark.parametrize("name", ROW_TYPES)
def test_a_new_number_stands_behind_those_of_before(name: str) -> None:
    before = [line.split()[1] for line in lines("schema.txt", f"{name} ")]
    numbers = list(ROW_TYPES[name].numbers)
    old = [number for number in numbers if number in before]
    assert numbers[: len(old)] == old


def shown(family: Family) -> str:
    """A line about a metric: its name, where its values are, its labels and its text."""
    labels = ",".join(family.label_names)
    return f"{family.name} {family.place} {labels} | {family.documentation}"


def test_metrics_are_shown_as_before_and_in_that_order() -> None:
    before = lines("families.txt")
    names = [line.split()[0] for line in before]
    now = [shown(family) for family in CATALOGUE if family.name in names]
    assert now == before
