"""The description of `/api/v1` for programs, OpenAPI 3.1: of the routes, and of the types of their answers."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock import __version__
from penstock.insight.answers import Error
from penstock.server.parameters import Given, Parameter
from penstock.server.view import AgentView

Schema = dict[str, Any]
"""JSON Schema, or a part of it."""


class Route:
    """A path, names in braces. answer: the type of what `look_up` returns. parameters: all that are allowed."""

    def __init__(
        self,
        name: str,
        summary: str,
        answer: type,
        look_up: Callable[[AgentView, Given], object],
        *allowed: Parameter,
    ) -> None:
        self.path = f"/api/v1/{name}"
        self.summary = summary
        self.answer = answer
        self.look_up = look_up
        self.parameters = allowed


def described(routes: Sequence[Route]) -> Schema:
    """Return the OpenAPI description of the routes."""
    answers, components = msgspec.json.schema_components(
        [*(route.answer for route in routes), Error],
        ref_template="#/components/schemas/{name}",
    )
    *of_routes, error = answers
    paths = {
        route.path: {"get": _get(route, answer, error)}
        for route, answer in zip(routes, of_routes, strict=True)
    }
    about = "Flow-control health of JMS brokers: queues, clients, conditions and what changed."
    info = {"title": "Penstock", "version": __version__, "description": about}
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": components},
    }


def _get(route: Route, answer: Schema, error: Schema) -> Schema:
    """Describe the answers and parameters of one route."""

    def response(meaning: str, schema: Schema) -> Schema:
        return {
            "description": meaning,
            "content": {"application/json": {"schema": schema}},
        }

    return {
        "summary": route.summary,
        "parameters": [_parameter(one) for one in route.parameters],
        "responses": {
            "200": response("It is there.", answer),
            "400": response("A parameter cannot be used.", error),
            "404": response(
                "There is no such thing; the hint names similar ones.", error
            ),
            "503": response(
                "Too many look-ups at once; come again as Retry-After says.", error
            ),
        },
    }


def _parameter(parameter: Parameter) -> Schema:
    """Describe one parameter."""
    schema = {
        "type": "string",
        **(
            {"minLength": 1}
            if parameter.required and parameter.place == "query"
            else {}
        ),
        **parameter.schema,
    }
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.meaning,
        "schema": schema,
    }
