"""How the report says when a limit is met."""

from typing import Any

import numpy as np
import pytest

from penstock_trends.analysis import cleaned, limit_facts
from penstock_trends.wording import met_text

NOW = 1_796_083_200.0  # 2026-12-01


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"state": "unknown"}, "unknown: too little was seen of late"),
        ({"state": "far"}, "not within 90 days at the present rate"),
        ({"state": "falls back"}, "no date: it fell back from this level before"),
        ({"state": "met"}, "at its limit now"),
        (
            {"state": "rising", "days": 10.2, "low": 8.5, "high": 12.9},
            "limit met about 11 Dec 2026 (between 9 Dec 2026 and 13 Dec 2026)",
        ),
        (
            {"state": "rising", "days": 10.2, "low": 8.5, "high": "never"},
            "limit met about 11 Dec 2026 (at the earliest 9 Dec 2026)",
        ),
    ],
)
def test_days_until_a_limit(limit: dict[str, Any], said: str) -> None:
    assert met_text(limit, NOW) == said


def test_a_date_counts_from_the_end_of_the_history_also_where_a_broker_was_not_seen_of_late() -> (
    None
):
    """It would else be early by as long as it was not seen."""
    rising = np.array([0.001 * hour for hour in range(600)])
    seen = limit_facts(rising, 0.9, 0, 600 * 3600)
    late = limit_facts(rising, 0.9, 0, 630 * 3600)
    dates = [one["now"] + 86400 * one["days"] for one in (seen, late)]
    assert dates == pytest.approx([900 * 3600] * 2, abs=6 * 3600)
    assert met_text(cleaned(seen), seen["now"]) == met_text(cleaned(late), late["now"])


def test_what_was_last_seen_long_ago_is_unknown() -> None:
    """A broker that is gone has no limit that it will meet."""
    rising = [0.001 * hour for hour in range(600)]
    seen = np.array(rising)
    assert cleaned(limit_facts(seen, 0.9, 0, 600 * 3600))["state"] == "rising"
    gone = cleaned(limit_facts(seen, 0.9, 0, 900 * 3600))
    assert (gone["state"], gone["days_low"], gone["days_high"]) == (
        "unknown",
        None,
        None,
    )
    far = cleaned(limit_facts(np.full(600, 0.5), 0.9, 0, 600 * 3600))
    assert (far["state"], far["days_low"], far["days_high"]) == (
        "far",
        "never",
        "never",
    )
