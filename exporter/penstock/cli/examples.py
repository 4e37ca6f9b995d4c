"""Examples at the end of a command's help."""


def examples(*lines: str) -> str:
    """An epilog of these lines, as they stand; a test runs every one."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
