"""
A small builder of Grafana dashboards: classic JSON, schema 39, which Grafana 10 and later read.

A panel is a value; `document` lays panels out in rows and adds what all dashboards share.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.assets.values import DEFAULT
from penstock.exposition.catalogue import CATALOGUE

SCHEMA: Final = 39
COLUMNS: Final = 24
OK = "#0072B2"
WARNING = "#E69F00"
CRITICAL = "#D55E00"
"""Told apart by the colour-blind too, and on paper."""

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_LABELS: Final = {family.name: family.label_names for family in CATALOGUE}

IDENTITY: Final = DEFAULT.identity
"""Labels that tell apart brokers of one name; a series without one of them has it empty."""
DECIMALS: Final = {"locale": 0, "percentunit": 0, "mps": 1, "s": 1, "bytes": 1}
"""Unit → decimals of its numbers, where a panel or column does not say; of other units as many as Grafana likes."""
LEAST_TOP: Final = {"mps": 0.1, "cps": 0.1}
"""Unit → how far an axis reaches at least, of others 1: Grafana draws a line at 0 below an axis that reaches 100."""
MOST_LINES = 20
MOST_ROWS = 100
"""The worst series that a graph or a table shows."""

MANY_POINTS = 180
FEW_POINTS = 60
"""Of a line, of one queue and over all of them: Prometheus looks at every series of a panel for each point."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """
    Selects what the variables of a dashboard choose. `variables`: labels that have one, beside those of all dashboards.

    optional: of these what series without the label are shown for, too, whatever is chosen.
    """

    variables: tuple[str, ...]
    optional: tuple[str, ...] = ()

    def __call__(self, family: str, *matchers: str) -> str:
        """A selector of a family of the catalogue; `matchers` come beside the variables."""
        names = (
            *IDENTITY,
            "job",
            "instance",
            *(name for name in _LABELS[family] if name in self.variables),
        )
        of_variables = (chosen(name, or_absent=name in self.optional) for name in names)
        return f"{family}{{{','.join([*of_variables, *matchers])}}}"


def chosen(variable: str, *, or_absent: bool = False) -> str:
    """
    A matcher for series whose label has the value that is chosen for the variable of the same name.

    or_absent: series without the label match, too.
    """
    return f"{variable}=~`{value_of(variable)}{'|' if or_absent else ''}`"


def value_of(variable: str) -> str:
    """
    What is chosen for a variable, as a part of a regular expression between backticks.

    The name of a queue may hold anything. The format `regex` makes Grafana escape it: without a format it escapes no
    value of a variable with one choice, and no quotes. Between backticks PromQL takes backslashes and quotes as they
    are. A name with a backtick is the one that cannot be shown.
    """
    return f"${{{variable}:regex}}"


def largest(by: str, value: str) -> str:
    """The value by labels; of two agents on one broker the one with more."""
    return f"max by ({apart(by)}) ({value})"


def apart(by: str) -> str:
    """A list of labels, with those that keep brokers of one name apart."""
    return ", ".join([*IDENTITY, by])


def worst_of(number: int, value: str) -> str:
    """The largest values only, so that a panel stays readable and its answer small.

    Of the largest by labels twice as many are taken first, as two agents may show each: by labels alone Prometheus
    would copy the labels of every series for every point, at twenty times the cost.
    """
    found = re.fullmatch(r"max by \(([^()]*)\) \((.*)\)", value)
    if (
        found
        and _one_value(found[2])
        and _labels_of(found[2]) <= set(found[1].split(", "))
    ):
        value = f"max by ({found[1]}) (topk({2 * number}, {found[2]}))"
    return f"topk({number}, {value})"


def _one_value(text: str) -> bool:
    """Whether brackets close in the order in which they are opened: the text is all within those around it."""
    open_ = 0
    for character in text:
        open_ += {"(": 1, ")": -1}.get(character, 0)
        if open_ < 0:
            return False
    return True


def _labels_of(value: str) -> set[str]:
    """The labels by which series of the families in it differ, of one agent."""
    return {
        label for name in re.findall(r"\w+", value) for label in _LABELS.get(name, ())
    }


def total(value: str, by: str = "", each: str = "sum") -> str:
    """The sum over all series, or by a label; of two agents on one broker the larger. each: of one agent's."""
    more = f", {by}" if by else ""
    of_agent = f"{each} by ({apart('broker, job, instance')}{more}) ({value})"
    over = f"sum by ({by}) " if by else "sum"
    return f"{over}(max by ({apart('broker')}{more}) ({of_agent}))"


def rate(by: str, counter: str) -> str:
    """A counter's increase a second, by labels; of two agents on one broker the one with more."""
    return largest(by, f"rate({counter}[$__rate_interval])")


def number_of(value: str, shown: str) -> str:
    """How many series a value has; 0 when none, but nothing while `shown` has none either."""
    return f"count({value}) or 0 * count({shown})"


def least_of(number: int, value: str) -> str:
    """The smallest values only, where these are the worst."""
    return f"bottomk({number}, {value})"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL and the name of its series, with labels in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """From `value` on the colour holds."""

    value: float | None
    color: str


def above(warning: float, critical: float | None = None) -> tuple[Step, ...]:
    """Steps that turn bad upwards."""
    return (
        Step(None, OK),
        Step(warning, WARNING),
        *(() if critical is None else (Step(critical, CRITICAL),)),
    )


def below(critical: float) -> tuple[Step, ...]:
    """Steps that turn bad downwards."""
    return (Step(None, CRITICAL), Step(critical, OK))


@dataclass(frozen=True, slots=True)
class Panel:
    """
    One panel; width in columns of 24, height in units of the grid.

    description: what it shows and what to do with it. mappings: value → text and colour. empty: shown without data.
    """

    kind: str
    title: str
    description: str
    queries: tuple[Query, ...] = ()
    unit: str = "short"
    decimals: int | None = None
    width: int = 8
    height: int = 8
    steps: tuple[Step, ...] = (Step(None, OK),)
    mappings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    custom: Mapping[str, Any] = field(default_factory=dict)
    overrides: tuple[Json, ...] = ()
    transformations: tuple[Json, ...] = ()
    links: tuple[Json, ...] = ()
    instant: bool = False
    smallest: float | None = 0
    largest: float | None = None
    empty: str = "No data, or not reported by this broker"


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row of panels."""

    title: str
    panels: tuple[Panel, ...]


def graph(
    title: str, description: str, *queries: Query, unit: str, **more: Any
) -> Panel:
    """Lines over time."""
    custom = {
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": 8,
        "showPoints": "never",
        "spanNulls": False,
        "axisSoftMax": LEAST_TOP.get(unit, 1),
        "stacking": {
            "mode": "normal" if more.pop("stacked", False) else "none",
            "group": "A",
        },
        "thresholdsStyle": {
            "mode": "dashed" if len(more.get("steps", ())) > 1 else "off"
        },
    }
    options = {
        "legend": {
            "displayMode": "list",
            "placement": "bottom",
            "showLegend": True,
            "calcs": [],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    ranked = more.pop("ranked", worst_of)
    shown = tuple(
        Query(ranked(MOST_LINES, one.expr), named(one.legend))
        if "{{" in one.legend
        else one
        for one in queries
    )
    return Panel(
        "timeseries",
        title,
        description,
        shown,
        unit,
        custom=custom,
        options=options,
        **more,
    )


def named(legend: str) -> str:
    """A legend that tells brokers of one name apart; where their labels are missing nothing is shown of them."""
    return legend.replace(
        "{{broker}}", " ".join(f"{{{{{one}}}}}" for one in (*IDENTITY, "broker"))
    )


def stat(
    title: str, description: str, query: str, *, unit: str = "locale", **more: Any
) -> Panel:
    """One number."""
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": more.pop("text", "auto"),
    }
    size = {"width": 4, "height": 4} | more
    queries = (Query(query, size.pop("legend", "")),)
    return Panel(
        "stat", title, description, queries, unit, options=options, instant=True, **size
    )


def timeline(
    title: str,
    description: str,
    *queries: Query,
    mappings: Mapping[str, tuple[str, str]],
    **more: Any,
) -> Panel:
    """States over time, a line for each series."""
    options = {
        "mergeValues": True,
        "showValue": "auto",
        "alignValue": "left",
        "rowHeight": 0.85,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    custom = {"fillOpacity": 80, "lineWidth": 0, "spanNulls": False}
    queries = tuple(
        Query(worst_of(MOST_LINES, one.expr), named(one.legend)) for one in queries
    )
    return Panel(
        "state-timeline",
        title,
        description,
        queries,
        "none",
        mappings=mappings,
        options=options,
        custom=custom,
        **more,
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers in a table: an instant query that keeps the table's key labels."""

    title: str
    expr: str
    unit: str = "locale"
    decimals: int | None = None
    steps: tuple[Step, ...] = ()
    mappings: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def table(
    title: str,
    description: str,
    keys: Sequence[str],
    *columns: Column,
    links: Mapping[str, Json] | None = None,
    **more: Any,
) -> Panel:
    """A row for each combination of the key labels; `links`: key → data link of its cells.

    sort: titles of columns, the worst first. Rows have the largest values (`least`: the smallest) of the first of them,
    and of the last, as not all rows may have the first.
    """
    sort = more.pop("sort", (columns[0].title,))
    by_title = {column.title: column.expr for column in columns}
    ranked = [by_title[title] for title in dict.fromkeys((sort[0], sort[-1]))]
    least = more.pop("least", False)
    chosen = [(least_of if least else worst_of)(MOST_ROWS, one) for one in ranked]
    keys = (*IDENTITY, *keys)
    of_rows = chosen[0] if len(chosen) == 1 else f"({' or '.join(chosen)})"
    shown = [
        Query(
            of_rows
            if [one.expr] == ranked
            else f"{one.expr} and on ({', '.join(keys)}) {of_rows}"
        )
        for one in columns
    ]
    values = (
        [f"Value #{ref}" for ref, _ in zip(_refs(), columns, strict=False)]
        if len(columns) > 1
        else ["Value"]
    )
    order = {name: i for i, name in enumerate([*keys, *values])}
    organize = {
        "excludeByName": {"Time": True},
        "indexByName": order,
        "renameByName": {},
    }
    # "string": else an id of digits is shown as a number
    headed = [
        _override(key, displayName=key.replace("_", " ").capitalize(), unit="string")
        for key in keys
    ]
    linked = [_override(key, links=[link]) for key, link in (links or {}).items()]
    return Panel(
        "table",
        title,
        description,
        tuple(shown),
        "short",
        options={
            "showHeader": True,
            "cellHeight": "sm",
            "footer": {"show": False, "reducer": ["sum"], "fields": ""},
            "sortBy": [{"displayName": name, "desc": not least} for name in sort],
        },
        custom={
            "align": "auto",
            "cellOptions": {"type": "auto"},
            "inspect": False,
            "filterable": True,
        },
        overrides=(*headed, *linked, *map(_column, values, columns)),
        transformations=(
            {"id": "merge", "options": {}},
            {"id": "organize", "options": organize},
        ),
        instant=True,
        smallest=None,
        empty="",  # Grafana would put it into every empty cell
        **({"width": 24, "height": 9} | more),
    )


def _column(name: str, column: Column) -> Json:
    properties: Json = {"displayName": column.title, "unit": column.unit}
    if (decimals := _decimals(column)) is not None:
        properties["decimals"] = decimals
    if column.mappings:
        properties["mappings"] = _mappings(column.mappings)
    if column.steps:
        properties["thresholds"] = _thresholds(column.steps)
    if column.steps or column.mappings:
        properties["custom.cellOptions"] = {"type": "color-text"}
    return _override(name, **properties)


def _decimals(shown: Panel | Column) -> int | None:
    return DECIMALS.get(shown.unit) if shown.decimals is None else shown.decimals


def _override(name: str, **properties: Any) -> Json:
    listed = [{"id": key, "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": listed}


def to_dashboard(
    title: str, uid: str, labels: Sequence[str], *, fields: bool = False
) -> Json:
    """A data link to another dashboard with labels of the series (or, `fields`, of the table's row) as variables."""
    value = (
        "${{__data.fields.{}:percentencode}}"
        if fields
        else "${{__field.labels.{}:percentencode}}"
    )
    variables = "".join(f"&var-{label}={value.format(label)}" for label in labels)
    chosen = "".join(f"&${{{name}:queryparam}}" for name in ("datasource", *IDENTITY))
    return {"title": title, "url": f"/d/{uid}?${{__url_time_range}}{chosen}{variables}"}


def _refs() -> Iterator[str]:
    yield from "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _thresholds(steps: Sequence[Step]) -> Json:
    return {
        "mode": "absolute",
        "steps": [{"color": step.color, "value": step.value} for step in steps],
    }


def _mappings(mappings: Mapping[str, tuple[str, str]]) -> list[Json]:
    options = {
        value: {"text": text, "color": color, "index": i}
        for i, (value, (text, color)) in enumerate(mappings.items())
    }
    return [{"type": "value", "options": options}] if options else []


def _target(query: Query, ref: str, panel: Panel) -> Json:
    return {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": panel.instant,
        "range": not panel.instant,
        "legendFormat": query.legend or "__auto",
        "refId": ref,
    }


def _panel(panel: Panel, number: int, x: int, y: int, points: int) -> Json:
    defaults: Json = {
        "unit": panel.unit,
        "color": {
            "mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"
        },
        "custom": dict(panel.custom),
        "thresholds": _thresholds(panel.steps),
        "mappings": _mappings(panel.mappings),
        "links": list(panel.links),
    }
    bounds = {
        "decimals": _decimals(panel),
        "min": panel.smallest,
        "max": panel.largest,
        "noValue": panel.empty or None,
    }
    defaults |= {name: value for name, value in bounds.items() if value is not None}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "targets": [
            _target(query, ref, panel)
            for ref, query in zip(_refs(), panel.queries, strict=False)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": list(panel.overrides)},
        "options": dict(panel.options),
        "transformations": list(panel.transformations),
        "interval": "15s",
        "maxDataPoints": points,
    }


def laid_out(rows: Sequence[Row], points: int) -> list[Json]:
    """Panels from left to right, rows from top to bottom; a row wraps where its panels exceed the grid."""
    laid: list[Json] = []
    y = 0
    for row in rows:
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        laid.append(
            {
                "id": len(laid) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        y += 1
        x = high = 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x = 0
                y = y + high
                high = 0
            laid.append(_panel(panel, len(laid) + 1, x, y, points))
            x = x + panel.width
            high = max(high, panel.height)
        y += high
    return laid
