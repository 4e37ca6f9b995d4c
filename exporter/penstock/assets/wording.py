"""Templates of annotations: numbers that an alert's own labels lead to, and links."""

import re

from penstock.exposition.catalogue import CATALOGUE

_FAMILIES = {family.place: family for family in CATALOGUE}

_WORDS = {
    "value": "{{ $value }}",
    "client": "{{ $labels.client }}",
    "in_queue": "`{{ $labels.queue }}` on {{ $labels.broker }}",
    "in_address": "`{{ $labels.address }}` on {{ $labels.broker }}",
}
_OVER = {
    "": "{}",
    "age": "time() - {}",
    "a second": "rate({}[5m])",
    "increase of 15m": "increase({}[15m])",
    "sum of 15m": "sum (increase({}[15m]))",
}


def described(text: str) -> str:
    """The description of an alert as a template.

    `{table.column}` is a number of the catalogue that has the alert's labels, "unknown" where there is none. What
    follows a bar says what of it: its age, its change a second, its increase, or the sum of the increases of all series
    of the queue.
    """
    return re.sub(r"\{([\w.]+)(?:\|([^}]*))?\}", _placed, text)


def _placed(found: re.Match[str]) -> str:
    if found[1] in _WORDS:
        return _WORDS[found[1]]
    family, over = _FAMILIES[found[1]], _OVER[found[2] or ""]
    whole = ("broker", "address", "queue") if over.startswith("sum") else family.label_names
    names = ("job", "instance", *whole)
    query = over.format(f"{family.name}{{{','.join(f'{name}=%q' for name in names)}}}")
    arguments = " ".join(f"$labels.{name}" for name in names)
    return (
        f"{{{{ with printf `{query}` {arguments} | query }}}}{{{{ . | first | value | {_shown(family.name, over)}"
        "{{ else }}unknown{{ end }}"
    )


def _shown(family: str, over: str) -> str:
    """How to show it: the end of a template, unit included."""
    if "rate(" in over:
        return 'printf "%.2f" }}'
    if family.endswith("_ratio"):
        return "humanizePercentage }}"
    if family.endswith("_bytes"):
        return "humanize1024 }}B"
    return "humanizeDuration }}" if family.endswith("_seconds") else 'printf "%.0f" }}'


def link(base: str, dashboard: str, labels: tuple[str, ...]) -> str:
    """Template of a dashboard's address with the alert's labels as variables."""
    variables = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in labels)
    return f"{base}/d/{dashboard}" + (f"?{variables}" if variables else "")
