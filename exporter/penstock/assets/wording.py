"""Templates of annotations: numbers that an alert's own labels lead to, and links."""

import re

from penstock.exposition.catalogue import CATALOGUE

_LABELS = {family.name: family.label_names for family in CATALOGUE}
_FAMILIES = {family.place: family for family in CATALOGUE}

IN_QUEUE = "`{{ $labels.queue }}` on {{ $labels.broker }}"
IN_ADDRESS = "`{{ $labels.address }}` on {{ $labels.broker }}"
_WORDS = {
    "value": "{{ $value }}",
    "client": "{{ $labels.client }}",
    "in_queue": IN_QUEUE,
    "in_address": IN_ADDRESS,
}
_OVER = {
    "": "{}",
    "age": "time() - {}",
    "a second": "rate({}[5m])",
    "increase of 15m": "increase({}[15m])",
    "sum of 15m": "sum (increase({}[15m]))",
}


def described(text: str) -> str:
    """
    The description of a condition's alert as a template.

    `{table.column}` is a number of the catalogue that has the alert's labels. What follows a bar says what of it: its
    age, its change a second, its increase, or the sum of the increases of all series of the queue.
    """
    return re.sub(r"\{([\w.]+)(?:\|([^}]*))?\}", _placed, text)


def _placed(found: re.Match[str]) -> str:
    if found[1] in _WORDS:
        return _WORDS[found[1]]
    labels = ("broker", "address", "queue") if (found[2] or "").startswith("sum") else ()
    return present(_FAMILIES[found[1]].name, labels=labels, over=_OVER[found[2] or ""])


def present(family: str, *, labels: tuple[str, ...] = (), over: str = "{}") -> str:
    """
    Template of the present value of a family that has the alert's labels; "unknown" where there is none.

    labels: those to select by, else all of the family. over: PromQL around the family, as "rate({}[5m])".
    """
    names = ("job", "instance", *(labels or _LABELS[family]))
    matchers = ",".join(f"{name}=%q" for name in names)
    query = over.format(f"{family}{{{matchers}}}")
    arguments = " ".join(f"$labels.{name}" for name in names)
    return (
        f"{{{{ with printf `{query}` {arguments} | query }}}}{{{{ . | first | value | {_shown(family, over)}"
        "{{ else }}unknown{{ end }}"
    )


def age(family: str) -> str:
    """Template of the time since a timestamp."""
    return present(family, over="time() - {}")


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
