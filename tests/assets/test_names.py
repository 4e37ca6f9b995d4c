"""Dashboards with queues of any name: each panel is of exactly what is chosen, whatever its letters mean elsewhere."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qs, urlsplit

import promql_parser as promql
import pytest

from assets.boards import DOCUMENTS, Json, asked, panels, variables_of
from assets.grafana import ALL, Choice, expanded
from assets.promql import quoted, selectors

NAMES = (
    "orders", "orders.eu", "orders-eu", "orders|eu", "orders eu", "$sys.mqtt.sessions", "star*", "star", "(a)[b]",
    'we"ird', "it's", "back\\slash", "back/slash", "a{1}", "^up?", "plus+", "éü", "$queue", "${queue:regex}",
)  # fmt: skip
"""Of queues, each of which could be taken for another or break a query."""
NAMED = frozenset({"broker", "address", "queue", "client"})
"""Variables whose values people and applications make up."""
BOARDS = [
    pytest.param(
        board, id=uid, marks=() if uid == "penstock-queue" else pytest.mark.slow
    )  # a third of a second each
    for uid, board in DOCUMENTS.items()
]
MODES = [
    pytest.param(False, id="classic"),
    pytest.param(
        True, id="quotes-escaped", marks=pytest.mark.slow
    ),  # all queries of all boards once more
]


def queries(board: Json) -> Iterator[tuple[str, str]]:
    """Everything that a dashboard asks of Prometheus, by where it is."""
    for panel in panels(board):
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for annotation in board["annotations"]["list"][1:]:
        yield annotation["name"], annotation["expr"]
    for variable in board["templating"]["list"][1:]:
        (selector,) = re.findall(
            r"label_values\((.*),\w+\)", variable["query"]["query"]
        )
        yield f"variable {variable['name']}", selector


def several(board: Json) -> Mapping[str, bool]:
    """Variable → whether several of its values can be chosen."""
    return {
        one["name"]: one["multi"] or one["includeAll"]
        for one in board["templating"]["list"]
    }


def chosen(board: Json, *names: str) -> Mapping[str, Choice]:
    """These names are chosen for each variable that is a name, the first of them where there can be one only."""
    choices = {}
    for variable, many in several(board).items():
        if variable in NAMED:
            choices[variable] = Choice(names if many else names[:1], several=many)
        else:
            choices[variable] = ALL
    return choices


def matched(matcher: promql.Matcher) -> set[str]:
    """Which of the names a matcher accepts."""
    if "Re" in str(matcher.op):
        return {name for name in NAMES if re.fullmatch(matcher.value, name)}
    return {name for name in NAMES if matcher.value == name}


def of_variables(query: str, board: Json) -> Iterator[promql.Matcher]:
    """The matchers of an expanded query by what its dashboard has a variable for."""
    named = NAMED & several(board).keys()
    for selector, _ in selectors(quoted(query)):
        for matcher in selector.matchers.matchers:
            if matcher.name in named and "Not" not in str(matcher.op):
                yield matcher


@pytest.mark.parametrize("quotes_escaped", MODES)
@pytest.mark.parametrize("board", BOARDS)
def test_a_query_selects_the_names_that_are_chosen_and_no_other(
    board: Json, quotes_escaped: bool
) -> None:
    many = several(board)
    for names in (*((name,) for name in NAMES), ("orders.eu", "star*", 'we"ird')):
        choices = chosen(board, *names)
        for where, query in queries(board):
            for matcher in of_variables(
                expanded(query, choices, quotes_escaped=quotes_escaped), board
            ):
                wanted = set(names if many[matcher.name] else names[:1])
                assert matched(matcher) == wanted, (where, matcher.name)


@pytest.mark.parametrize("name", NAMES)
def test_findings_of_a_queue_and_its_clients_are_those_of_no_other(name: str) -> None:
    board = DOCUMENTS["penstock-queue"]
    queries_of_panels = {
        panel["title"]: panel["targets"][0]["expr"] for panel in panels(board)
    }
    query = expanded(queries_of_panels["Findings"], chosen(board, name))
    matchers = [
        one
        for selector, _ in selectors(quoted(query))
        for one in selector.matchers.matchers
    ]
    objects = [matcher.value for matcher in matchers if matcher.name == "object"]
    candidates = [*NAMES, *(f"{one}/client" for one in NAMES)]
    found = {
        one for one in candidates if any(re.fullmatch(value, one) for value in objects)
    }
    assert found == {name, f"{name}/client"}


def test_everything_is_chosen_by_one_expression() -> None:
    """Which costs Prometheus nothing, and chooses series without the label, too."""
    board = DOCUMENTS["penstock-fleet"]
    for _, query in queries(board):
        for selector, _ in selectors(
            expanded(query, dict.fromkeys(several(board), ALL))
        ):
            values = {
                one.value
                for one in selector.matchers.matchers
                if one.name in several(board)
            }
            assert values <= {".*", ".*|"}


def test_no_query_leaves_the_form_of_a_name_to_the_data_source() -> None:
    """Its rules differ by Grafana's versions and features, and with `multi`."""
    for query in asked():
        for name in variables_of(query.expr):
            assert f"${{{name}:regex}}" in query.expr, query.name
            assert f"${name}" not in query.expr, query.name


LINKED = re.compile(r"\$\{(?:__data\.fields|__field\.labels)\.(\w+):percentencode\}")
"""A label of a row or line in a data link."""


@pytest.mark.parametrize("name", NAMES)
def test_links_open_the_dashboard_of_the_same_name(name: str) -> None:
    urls = {
        link["url"]
        for board in DOCUMENTS.values()
        for panel in panels(board)
        for link in [*panel["fieldConfig"]["defaults"]["links"], *_of_columns(panel)]
    }
    assert urls
    for url in urls:
        labels = LINKED.findall(url)
        opened = LINKED.sub(r"${\1:percentencode}", url)
        query = parse_qs(
            urlsplit(
                expanded(opened, {label: Choice((name,)) for label in labels})
            ).query
        )
        assert {label: query[f"var-{label}"] for label in labels} == {
            label: [name] for label in labels
        }
        uid = urlsplit(url).path.removeprefix("/d/")
        assert set(labels) <= several(DOCUMENTS[uid]).keys()


def _of_columns(panel: Json) -> Iterator[Json]:
    for override in panel["fieldConfig"]["overrides"]:
        yield from (
            link
            for one in override["properties"]
            if one["id"] == "links"
            for link in one["value"]
        )
