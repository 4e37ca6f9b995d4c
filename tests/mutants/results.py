"""What is known of each mutant from earlier runs, for as long as function and tests are the same."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

KEPT = Path("build/mutants.json")


@dataclass
class Result:
    """Of one mutant. killed_by: the test that fails, with the digest of its file; empty: none did. tried: digests of
    the files of which all tests were tried."""

    killed_by: str = ""
    digest: str = ""
    tried: list[str] = field(default_factory=list)


def load() -> dict[str, Result]:
    """By the keys of mutants."""
    if not KEPT.exists():
        return {}
    text = KEPT.read_text()
    read = json.loads(text)
    return {key: Result(**fields) for key, fields in read.items()}


def save(results: Mapping[str, Result]) -> None:
    KEPT.parent.mkdir(exist_ok=True)
    plain = {key: asdict(result) for key, result in results.items()}
    new_file = KEPT.with_suffix(".new")
    text = json.dumps(plain)
    new_file.write_text(text)
    new_file.rename(KEPT)


def digest(path: Path) -> str:
    """Of a file of tests, with the helpers in its folder."""
    in_folder = sorted(path.parent.glob("*.py"))
    helpers = [helper for helper in in_folder if not helper.name.startswith("test_")]
    contents = [file.read_bytes() for file in [path, *helpers]]
    content = b"".join(contents)
    return short(content)


def own_digest(path: Path) -> str:
    """Of a file of tests alone."""
    content = path.read_bytes()
    return short(content)


def short(content: bytes) -> str:
    digits = sha256(content).hexdigest()
    return digits[:12]


def is_killed(result: Result | None) -> bool:
    """Whether a test that is as it was then kills it."""
    if result is None or not result.killed_by:
        return False
    file, _, _ = result.killed_by.partition("::")
    path = Path(file)
    if not path.exists():
        return False
    return own_digest(path) == result.digest


def untried(result: Result | None, files: Iterable[Path]) -> set[Path]:
    tried = set(result.tried) if result else set()
    return {path for path in files if digest(path) not in tried}
