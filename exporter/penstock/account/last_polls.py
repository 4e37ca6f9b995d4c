"""Numbers of the last polls: a line for each poll, the oldest first."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

NumberT = TypeVar("NumberT", bound=np.generic)


def shifted(lines: NDArray[NumberT], newest: NDArray[NumberT]) -> NDArray[NumberT]:
    """(lines, rows) The lines without the oldest one, and with the newest."""
    return np.vstack([lines[1:], newest])
