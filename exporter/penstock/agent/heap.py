"""How the process treats its memory: when it looks for garbage, when it gives back what is free."""

import gc

YOUNG = 50_000
"""New containers after which Python looks for cycles among them."""


def tune() -> None:
    """
    Look for cyclic garbage less often.

    What is known of a large broker is hundreds of thousands of objects in no cycle: to walk them takes 0.1 s, in which
    no request is answered. What requests leave behind in cycles is little.
    """
    gc.set_threshold(YOUNG, 20, 50)
