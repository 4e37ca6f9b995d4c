"""Templates of annotations: numbers that an alert's own labels lead to, and links."""

import re
from collections.abc import Callable, Sequence

from penstock.exposition.catalogue import CATALOGUE

_FAMILIES = {family.place: family for family in CATALOGUE}

_WORDS = {
    "value": "{{ $value }}",
    "client": "{{ $labels.client }}",
    "in_queue": "`{{ $labels.queue }}` on {{ $labels.broker }}",
    "in_address": "`{{ $labels.address }}` on {{ $labels.broker }}",
}
_OVER = {"": "{}", "age": "time() - {}"}


def described(text: str, identity: tuple[str, ...]) -> str:
    """The description of an alert as a template.

    `{table.column}` is a number of the catalogue that has the alert's labels, "unknown" where there is none; with
    `|age` the time since. Only for brokers and agents: each asks Prometheus again, for every alert at every evaluation.
    identity: labels that the alert has beside those of the number.
    """
    return re.sub(
        r"\{([\w.]+)(?:\|([^}]*))?\}", lambda found: _placed(found, identity), text
    )


def _placed(match: re.Match[str], identity: tuple[str, ...]) -> str:
    if match[1] in _WORDS:
        return _WORDS[match[1]]
    family = _FAMILIES[match[1]]
    over = _OVER[match[2] or ""]
    names = (*identity, *family.label_names)
    query = over.format(f"{family.name}{{{','.join(f'{name}=%q' for name in names)}}}")
    arguments = " ".join(f"$labels.{name}" for name in names)
    return (
        f"{{{{ with printf `{query}` {arguments} | query }}}}{{{{ . | first | value | {_shown(family.name)}"
        "{{ else }}unknown{{ end }}"
    )


def _shown(family: str) -> str:
    """How to show it: the end of a template, unit included."""
    if family.endswith("_ratio"):
        return "humanizePercentage }}"
    if family.endswith("_bytes"):
        return "humanize1024 }}B"
    return "humanizeDuration }}" if family.endswith("_seconds") else 'printf "%.0f" }}'


def link(base: str, dashboard: str, labels: tuple[str, ...]) -> str:
    """Template of a dashboard's address with the alert's labels as variables."""
    return address(
        base, f"d/{dashboard}", [f"var-{name}={_escaped(name)}" for name in labels]
    )


def page(base: str, labels: tuple[str, ...]) -> str:
    """Template of the address of the agent's page about what has these labels."""
    return address(
        base,
        labels[-1] if labels else "",
        [f"{name}={_escaped(name)}" for name in labels],
    )


def address(base: str, path: str, query: Sequence[str] = ()) -> str:
    """
    An address below `base`, whose own query (an organisation, say) comes before this one.

    query: parts that are escaped already.
    """
    place, _, own = base.partition("?")
    parts = "&".join([*([own] if own else []), *query])
    return f"{place.rstrip('/')}/{path}" + (f"?{parts}" if parts else "")


def _escaped(label: str) -> str:
    """Template of a label's value in a query."""
    return f"{{{{ $labels.{label} | urlquery }}}}"


def pasted(label: str) -> str:
    """Template of a label's value for a shell: within single quotes, as a queue may be named like a command."""
    return f"'{{{{ reReplaceAll `'` `'\\''` $labels.{label} }}}}'"


def command(labels: tuple[str, ...], quoted: Callable[[str], str] = pasted) -> str:
    """The command that explains an alert with these labels, whose values are `quoted`."""
    if not labels:
        return "penstock check"
    named = [quoted(name) for name in ("broker", "queue", "client") if name in labels]
    return " ".join(
        [
            "penstock explain",
            *named,
            *(["--address", quoted("address")] if "address" in labels else []),
        ]
    )
