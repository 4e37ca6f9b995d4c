"""`dead_lettering`: messages keep going to the dead letters."""

import pytest

from conditions.situations import leaving


@pytest.mark.parametrize(("at", "found"), [({2, 6}, True), ({6}, False), ({2}, False)])
def test_dead_lettering_in_both_halves_of_the_window(at: set[int], found: bool) -> None:
    judged = leaving("X", at)
    assert ("dead_lettering" in judged.notices) is found
    assert not judged.names
