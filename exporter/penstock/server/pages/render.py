"""Templates, and the words and links in them. All texts of a broker are escaped."""

import hashlib
import math
import re
import time
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import UNSET

from penstock import __version__
from penstock.account.fates import LOSSES
from penstock.config.values import LINK_NAME
from penstock.insight import formatting, text
from penstock.insight.answers import CONDITION_NAMES, ColumnValue
from penstock.model import ANONYMOUS
from penstock.server.pages import last_hour

REFRESH_SECONDS = 10
RELOAD_SECONDS = 30
"""Between two looks of the script, and of a browser without scripts."""
STATIC: Mapping[str, str] = {
    "penstock.css": "text/css",
    "penstock.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


@cache
def static(name: str) -> bytes:
    """A file that is the same for all; `name` is one of STATIC."""
    return (resources.files("penstock.server.pages") / "static" / name).read_bytes()


@cache
def static_link(name: str) -> str:
    """The link to a file; another content has another link, so that browsers may keep it."""
    return f"static/{name}?v={hashlib.sha256(static(name)).hexdigest()[:12]}"


def link(path: str, /, **given: object) -> str:
    """A relative link, so that it holds behind a proxy's prefix. given: parameters; empty ones are left out."""
    parameters = {
        name: str(value) for name, value in given.items() if value not in (None, "", 0)
    }
    query = urlencode(parameters)
    return f"{path}?{query}" if query else path


def links(urls: Mapping[str, str], **names: str) -> Iterator[tuple[str, str]]:
    """Text and URL of those links all of whose names are known."""
    for text_, url in urls.items():
        if all(names.get(name) for name in LINK_NAME.findall(url)):
            yield text_, LINK_NAME.sub(lambda name: quote(names[name[1]], safe=""), url)


def amount(value: ColumnValue) -> str:
    """A number in a cell; a dash where it is not known."""
    if value is None or value is UNSET or not math.isfinite(value):
        return "\N{EN DASH}"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2g}"


def with_code(text_: str) -> Markup:
    """The text, with code in backticks marked as such."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text_))))  # noqa: S704 - escaped


def words(name: str) -> str:
    """The name of a condition, a number or a change as text."""
    return name.replace("_", " ")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("penstock.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    own = (
        amount,
        words,
        with_code,
        last_hour.percent,
        text.impact,
        text.watched,
        text.worth_telling,
    )
    made.filters |= {one.__name__: one for one in own}
    made.filters |= {
        name: getattr(formatting, name)
        for name in ("amount_text", "duration", "moment", "name_text")
    }
    made.globals |= {
        one.__name__: one for one in (link, links, last_hour.line, last_hour.thinned)
    }
    made.globals |= {
        "static": static_link,
        "as_text": formatting.formatted,
        "version": __version__,
        "anonymous": ANONYMOUS,
        "refresh_seconds": REFRESH_SECONDS,
        "reload_seconds": RELOAD_SECONDS,
        "condition_names": CONDITION_NAMES,
        "losses": LOSSES,
        "chart": {
            "width": last_hour.WIDTH,
            "height": last_hour.HEIGHT,
            "strip": last_hour.STRIP,
        },
    }
    return made


def page(template: str, context: Mapping[str, object]) -> bytes:
    """A page in UTF-8; what UTF-8 cannot hold becomes a question mark."""
    return (
        _environment()
        .get_template(template)
        .render(context, now=time.time())
        .encode("utf-8", "replace")
    )
