"""How the report says when a limit is met."""

from typing import Any

import pytest

from penstock.trends.report import met_text


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (None, None, "no clear trend"),
        ("never", "never", "not at the present trend"),
        (654.0, 8760.0, "limit met in 654 days at the earliest"),
        (30.0, "never", "limit met in 30 days at the earliest"),
        (126.8, 127.2, "limit met in about 127 days"),
        (30.0, 90.4, "limit met in 30 to 90 days"),
        (0.0, 0.0, "limit reached"),
        (0.0, 5.0, "limit met in 0 to 5 days"),
        (0.0, 29.0, "limit met in 0 to 29 days"),
        (2.0, 30.0, "limit met in 2 to 30 days"),
        (0.0, 0.3, "limit met in less than a day"),
        (0.6, 1.2, "limit met in about 1 day"),
    ],
)
def test_days_until_a_limit(low: Any, high: Any, said: str) -> None:
    assert met_text(low, high) == said
