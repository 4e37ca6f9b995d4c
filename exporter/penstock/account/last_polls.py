"""Numbers of the last polls: a matrix with a line for each poll, the oldest first, so that [-1] is this poll."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

NumberT = TypeVar("NumberT", bound=np.generic)


def shifted(lines: NDArray[NumberT], newest: NDArray[NumberT]) -> NDArray[NumberT]:
    """(lines, rows) The same number of lines one poll later: without the oldest, and with `newest` as the last."""
    return np.vstack([lines[1:], newest])
