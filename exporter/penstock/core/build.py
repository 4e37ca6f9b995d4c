"""What this copy of the package was built from."""

from importlib.resources import files


def revision() -> str:
    """The commit, as the build wrote it; empty in a checkout."""
    file = files("penstock").joinpath("revision.txt")
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""
