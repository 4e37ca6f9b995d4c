"""How columns are declared, and what a frame makes of the declarations."""

from typing import Generic

import numpy as np
import pytest

from penstock.columns.spec import (
    Frame,
    Kind,
    Metric,
    Origin,
    RowT,
    Unit,
    derived,
    imported,
    kept,
    kept_mask,
    measured,
)
from penstock.core.table import Column, Index


class JarColumns(Frame[RowT], Generic[RowT]):
    THING = "jar"

    sweets = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Sweets in the jar.",
        artemis="listJars sweetCount",
        openmq="NumSweets",
        metric="mq_jar_sweets",
    )
    eaten = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Sweets that were eaten.",
        artemis="SweetsEaten",
        request="listJars sweetsEaten",
        metric=(
            Metric("mq_jar_eaten_total"),
            Metric("mq_shelf_eaten_total", help="Sweets eaten, of all jars."),
        ),
    )
    smell = imported(Kind.REAL, Unit.NONE, "How it smelled.")
    closed = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether it is closed.",
        classic="Closed",
    )


class Jars(JarColumns[str]):
    usual = kept(Unit.MESSAGES, "Sweets as usual.")
    is_locked = kept_mask("Nobody gets any.")

    @derived(Unit.TIMES)
    def fullness(self) -> Column:
        """How many times as full as usual.

        NaN where the usual is not known.
        """
        self.reads.append("fullness")
        return self.sweets / self.usual

    reads: list[str]


@pytest.fixture
def jars() -> Jars:
    columns = {
        "sweets": np.array([1.0, 6.0]),
        "usual": np.array([2.0, 3.0]),
    }
    jars = Jars(Index.of(["small", "large"]), columns)
    jars.reads = []
    return jars


def test_on_the_class_an_attribute_is_the_declaration() -> None:
    assert JarColumns.sweets.name == "sweets"
    assert JarColumns.sweets.unit is Unit.MESSAGES
    assert JarColumns.sweets.owner is JarColumns
    assert Jars.fullness.meaning == "How many times as full as usual."


def test_on_an_instance_it_is_the_array(jars: Jars) -> None:
    assert jars.sweets.tolist() == [1, 6]
    assert len(jars) == 2


def test_a_missing_column_is_nan_and_a_missing_mask_is_no(jars: Jars) -> None:
    assert np.isnan(jars.eaten).all()
    assert jars.eaten.shape == (2,)
    assert jars.is_locked.dtype == np.bool_
    assert jars.is_locked.tolist() == [False, False]


def test_a_derived_column_is_computed_once(jars: Jars) -> None:
    assert jars.fullness.tolist() == [0.5, 2]
    assert jars.fullness is jars.fullness
    assert jars.reads == ["fullness"]


def test_a_column_that_nobody_declares_is_an_error(jars: Jars) -> None:
    with pytest.raises(AttributeError):
        jars.sweat  # type: ignore[attr-defined]  # noqa: B018


def test_columns_of_a_frame_in_the_order_of_declaration() -> None:
    names = ["sweets", "eaten", "smell", "closed"]
    assert list(JarColumns.specs()) == names
    assert list(Jars.specs()) == [*names, "usual", "is_locked", "fullness"]


def test_brokers_send_what_is_measured_and_files_have_what_was_imported_too() -> None:
    assert Jars.measured() == {"sweets", "eaten", "closed"}
    assert list(Jars.stored()) == ["sweets", "eaten", "smell", "closed"]
    assert JarColumns.smell.origin is Origin.IMPORT


def test_a_listing_has_its_own_attributes() -> None:
    listed = {"sweets": "sweetCount", "eaten": "sweetsEaten"}
    assert JarColumns.from_request("listJars") == listed
    assert not JarColumns.from_request("listLids")


def test_sources_name_each_kind_of_broker() -> None:
    sources = "Artemis: listJars sweetCount; OpenMQ: NumSweets"
    assert str(JarColumns.sweets.sources) == sources
    assert str(JarColumns.closed.sources) == "Classic: Closed"


def test_metrics_of_the_things_themselves() -> None:
    assert JarColumns.shown() == ("sweets",)
    assert JarColumns.shown(Kind.FLAG) == ()
    assert JarColumns.shown(counters=True) == ("eaten",)


def test_sums_that_another_thing_shows() -> None:
    assert JarColumns.summed("shelf", counters=True) == {"eaten": "eaten"}
    assert JarColumns.summed("shelf") == {}
