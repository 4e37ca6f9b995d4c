"""The landing page: which brokers are watched, how they are, where the rest is. No scripts, nothing from elsewhere."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape

from penstock import __version__
from penstock.server.view import BrokerState

STYLE = """
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #cf222e; --faint: #59636e; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; --faint: #9198a1; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem 1rem .4rem 0; border-bottom: 1px solid var(--line); }
th[scope=row] { overflow-wrap: anywhere; } td { white-space: nowrap; } small { font-weight: normal; }
.up { color: var(--good); } .down { color: var(--bad); } .faint, small { color: var(--faint); }
"""
STYLE_HASH = f"sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}"
"""The only style that the content security policy allows."""

LINKS = (  # relative, so that they hold behind a proxy's prefix
    ("metrics", "metrics", "for Prometheus"),
    ("api", "API", "queues, conditions and events as JSON"),
    ("config", "configuration", "in force, secrets masked"),
    ("-/ready", "ready", "every broker was asked once"),
    ("-/healthy", "healthy", "the agent runs"),
)


def landing_page(brokers: Sequence[BrokerState]) -> str:
    """The page as HTML; whatever the names and errors hold, they are shown as text."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Penstock</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Penstock</h1>
<p class="faint">Version {escape(__version__)}. {_counted(brokers)}</p>
<div class="wide"><table>
<thead><tr><th scope="col">Broker</th><th scope="col">State</th><th scope="col">Kind</th><th scope="col">Version</th>
<th scope="col">Role</th><th scope="col">Data</th></tr></thead>
<tbody>
{_lines(map(_row, brokers))}
</tbody>
</table></div>
<h2>Pages</h2>
<ul>
{_lines(f'<li><a href="{path}">{name}</a> <span class="faint">{what}</span></li>' for path, name, what in LINKS)}
</ul>
</body>
</html>
"""


def _counted(brokers: Sequence[BrokerState]) -> str:
    up = sum(broker.up is True for broker in brokers)
    return f"{up} of {len(brokers)} brokers up."


def _row(broker: BrokerState) -> str:
    told = [broker.error, *broker.notes]
    small = "".join(f"<br><small>{escape(text)}</small>" for text in told if text)
    cells = (broker.kind, broker.version or "unknown", broker.role or "unknown", _age(broker.age))
    return (
        f'<tr><th scope="row">{escape(broker.name)}{small}</th>{_state(broker.up)}'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
    )


def _state(up: bool | None) -> str:
    if up is None:
        return '<td class="faint">not asked yet</td>'
    return '<td class="up">up</td>' if up else '<td class="down">down</td>'


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "none yet"
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    return f"{minutes} min {rest} s ago" if minutes else f"{rest} s ago"


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)
