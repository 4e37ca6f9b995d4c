"""A claim is known only where numbers were read: NaN compares as false, which is no answer."""

import ast
from collections.abc import Iterator
from importlib.resources import files

import numpy as np
import pytest

from penstock.causes.evidence import NumberRead, Truth, known

MODULES = sorted(
    one.name for one in files("penstock.causes").iterdir() if one.name.endswith(".py")
)
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


@pytest.mark.parametrize(
    "value", [float("nan"), 0.0, 1, None, "", np.float64("nan"), np.array([True])]
)
def test_what_is_no_truth_value_is_no_claim(value: object) -> None:
    with pytest.raises(TypeError, match="yes or no"):
        known(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("compare", ["above", "below", "at_least", "equals"])
@pytest.mark.parametrize(("value", "bound"), [(np.nan, 1.0), (1.0, np.nan)])
def test_a_comparison_with_what_was_not_read_is_unknown_and_says_why(
    compare: str, value: float, bound: float
) -> None:
    claim = getattr(NumberRead("its depth", value), compare)(bound)
    assert claim.truth is Truth.UNKNOWN
    assert "was not read" in claim.lacks[0]


@pytest.mark.parametrize(("value", "is_so"), [(2.0, True), (5.0, False)])
def test_a_comparison_of_what_was_read_is_known(value: float, is_so: bool) -> None:
    assert NumberRead("its depth", value).below(3.0) == known(is_so)
    assert NumberRead("its depth", value).at_least(3.0) == known(not is_so)


def compared_numbers(module: str) -> Iterator[str]:
    """Calls of `known` on an ordering of numbers, other than how many things there are."""
    tree = ast.parse(files("penstock.causes").joinpath(module).read_text())
    for call in ast.walk(tree):
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "known"
        ):
            continue
        for part in ast.walk(call):
            if not (
                isinstance(part, ast.Compare)
                and any(isinstance(one, ORDERED) for one in part.ops)
            ):
                continue
            if not ast.unparse(part).startswith("len("):
                yield f"{module}:{part.lineno}: {ast.unparse(call)}"


@pytest.mark.parametrize("module", MODULES)
def test_no_rule_makes_a_claim_of_a_plain_comparison(module: str) -> None:
    assert [*compared_numbers(module)] == []
