"""A broker whose queue, client, user and host are named to harm the terminal of whoever looks."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

from penstock.brokers.requests import quote
from penstock.tui.lines import HANG
from trust.mutation import fold, unfold

RECORDING = Path(__file__).parents[1] / "recordings" / "demo-artemis.jsonl.gz"
FORGED = "2026-11-22 08:00:00  critical  raised   forged  demo / payments"
ACTS = (
    "\x1b[2J\x1b]8;;http://evil/\x07\x08\r\n" + FORGED + "\x7f\x85\x9b31m\u2028\u2029"
)
UNSEEN = "\u202e\u202d\u2066\u2069\u200e\u200f\u061c\u200b\u200d\u2060\ufeff\U000e0041"
MARKUP = "[red]x[/red][link=http://evil]y[/link][/]:bomb:"
NAMES = {
    "stock.updates": f"q{ACTS}{UNSEEN}{MARKUP}q",
    "stock-service": f"c{UNSEEN}{ACTS}{MARKUP}c",
    "audit.ring": f"r{MARKUP}{ACTS}r",
}
"""Names of the recording → what they become, wherever they are: queue, address, client id and user."""
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""What may not be in an output; the end of a line may."""


POLLS = 20
"""Within them the queue and the ring have their conditions."""


def hostile_recording(path: Path) -> Path:
    """The first polls of the demo's recording with NAMES in it, written to `path`."""
    lines = [
        json.loads(line)
        for line in gzip.decompress(RECORDING.read_bytes()).splitlines()
    ]
    polls = [at for at, line in enumerate(lines) if "poll" in line]
    lines = lines[: polls[POLLS]]
    for line in lines:
        if "answer" in line:
            line["requests"] = _renamed(line["requests"])
            line["answer"] = fold(_renamed(unfold(line["answer"])))
    # As the reader writes its requests: letters that JSON need not escape are not escaped.
    text = "".join(
        json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"
        for line in lines
    )
    path.write_bytes(gzip.compress(text.encode()))
    return path


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {_renamed(key): _renamed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if value.startswith("org.apache.activemq.artemis:"):
        for old, new in NAMES.items():
            value = value.replace(f'"{old}"', quote(new))
    return NAMES.get(value, value)


def harm(output: str) -> list[str]:
    """The lines that would act on a terminal, or that a name has forged: no event is indented."""
    forged = tuple(" " * indent + FORGED for indent in range(HANG))
    return [
        line
        for line in output.split("\n")
        if RAW.search(line) or line.startswith(forged)
    ]
