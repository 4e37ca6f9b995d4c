"""`expiring`: messages keep expiring."""

import pytest

from conditions.situations import leaving


@pytest.mark.parametrize(("at", "found"), [({2, 6}, True), ({6}, False), ({2}, False)])
def test_expiring_in_both_halves_of_the_window(at: set[int], found: bool) -> None:
    judged = leaving("E", at)
    assert ("expiring" in judged.notices) is found
    assert not judged.names
