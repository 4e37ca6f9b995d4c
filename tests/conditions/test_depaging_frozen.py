"""`depaging_frozen`: what is in delivery fills the limit of reading pages."""

import pytest

from conditions.situations import at_limits
from conditions.things import Numbers

PAGING = {"paging": 1.0, "page_read_limit_bytes": 100.0}


@pytest.mark.parametrize(
    ("queue", "address", "names"),
    [
        ({"delivering_bytes": 90.0}, PAGING, {"depaging_frozen"}),
        ({"delivering_bytes": 89.9}, PAGING, set()),
        ({"delivering_bytes": 90.0}, {**PAGING, "paging": 0.0}, set()),
        ({"delivering_bytes": 0.0}, {**PAGING, "page_read_limit_bytes": -1.0}, set()),
        (
            {"D": 8.0},
            {"paging": 1.0, "page_read_limit_messages": 8.0},
            {"depaging_frozen"},
        ),
        ({"D": 8.0}, {"paging": 1.0, "page_read_limit_messages": 9.0}, set()),
        ({"D": 8.0}, {"paging": 1.0, "page_read_limit_messages": 0.0}, set()),
        ({"D": 50.0, "delivering_bytes": 99.0}, PAGING, set()),
    ],
)
def test_the_limits_of_reading_pages(
    queue: Numbers, address: dict[str, float], names: set[str]
) -> None:
    assert at_limits(queue, address) == names
