"""Work in pieces gives what work in one go gives."""

from hypothesis import given
from hypothesis import strategies as st

from core.things import patiently
from penstock.core.table import PIECE, looked_up, pieces


@given(st.integers(0, 3000), st.integers(1, 1000))
@patiently
def test_pieces_are_everything_once_and_in_order(size: int, most: int) -> None:
    found = list(pieces(size, most))
    assert [n for some in found for n in range(size)[some]] == list(range(size))
    assert all(some.stop - some.start <= most for some in found)


def test_texts_are_looked_up_wherever_they_stand() -> None:
    texts = [str(n) for n in range(3 * PIECE + 1)]
    known = {text: int(text) for text in texts if int(text) % 3}
    assert looked_up(known, texts).tolist() == [known.get(text, -1) for text in texts]
    assert looked_up(known, []).tolist() == []
