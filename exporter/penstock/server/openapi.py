"""The description of `/api/v1` for programs: OpenAPI 3.1."""

from collections.abc import Sequence
from typing import Any, Final

from penstock import __version__
from penstock.flow.lists import (
    CLIENT_NUMBERS,
    CLIENT_SORTS,
    CONSUMER_NUMBERS,
    CONSUMER_SORTS,
    QUEUE_MORE,
    QUEUE_NUMBERS,
    QUEUE_SORTS,
    TIMES,
)
from penstock.server.parameters import DEFAULT_ROWS, MAX_OFFSET, MAX_POINTS, MAX_ROWS

Schema = dict[str, Any]


def _text(meaning: str) -> Schema:
    return {"type": "string", "description": meaning}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, meaning: str, kind: str = "string", *, required: bool = False, **bounds: Any) -> Schema:
    schema = {"type": kind, **({"minLength": 1} if required else {}), **bounds}
    return {"name": name, "in": "query", "required": required, "description": meaning, "schema": schema}


def _path(name: str) -> Schema:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"Name of the {name}, percent-encoded.",
        "schema": {"type": "string"},
    }


def _get(summary: str, schema: Schema, *parameters: Schema) -> Schema:
    def answer(meaning: str, content: Schema) -> Schema:
        return {"description": meaning, "content": {"application/json": {"schema": content}}}

    return {
        "get": {
            "summary": summary,
            "parameters": list(parameters),
            "responses": {
                "200": answer("It is there.", schema),
                "400": answer("A parameter cannot be used.", _ref("Error")),
                "404": answer("There is no such thing; the hint names similar ones.", _ref("Error")),
                "503": answer("Too many look-ups at once; come again as Retry-After says.", _ref("Error")),
            },
        }
    }


_TIME: Final = {"type": "number", "description": "Seconds since 1970 by the agent's clock."}
_NUMBERS: Final = {
    "type": "object",
    "description": "By name; what is not known is not there. Messages, seconds, bytes or ratios, as in the metrics.",
    "additionalProperties": {"type": ["number", "null"]},
}
_LIMIT: Final = _query("limit", f"Rows at most; default {DEFAULT_ROWS}.", "integer", minimum=1, maximum=MAX_ROWS)
_SEVERITY: Final = {"type": "string", "enum": ["info", "warning", "critical"]}
_SHORT: Final = {
    "condition": _text("Its name, as the label `cause` of the metrics."),
    "severity": _SEVERITY,
    "silenced": {"type": "boolean", "description": "By a rule of the configuration: not exported."},
    "client": _text("Empty for a condition of the queue itself."),
    "since": _TIME,
}

_CONDITIONS: Final = _list(_object(**_SHORT))
_TOTAL: Final = {"type": "integer", "description": "How many there are, beyond the limit too."}
_NUMBER: Final = {"type": ["number", "null"]}


def _sort(sorts: Sequence[str]) -> tuple[Schema]:
    meaning = "Numbers begin with the largest, a minus before turns round."
    return (_query("sort", meaning, enum=[*sorts, *(f"-{sort}" for sort in sorts)]),)


def _list_of(name: str, sorts: Sequence[str], *more: Schema, schema: str = "") -> Schema:
    return _get(
        f"{name.capitalize()}, the worst first",
        _object(**{name: _list(_ref(schema or name.removesuffix("s").capitalize())), "total": _TOTAL}),
        _query("broker", "Only of this broker."),
        _query("condition", "Only those that have this condition."),
        _query("queue", "Only of this queue."),
        *more,
        _query("offset", "Rows to pass over, for the next page.", "integer", minimum=0, maximum=MAX_OFFSET),
        _query("text", "Only where this is part of a name, in any case: of address, queue, client, owner, condition."),
        *(_sort(sorts) if sorts else ()),
        _LIMIT,
    )


_POINTS: Final = _query(
    "points", "So many of the last values with each row; default none.", "integer", minimum=0, maximum=MAX_POINTS
)
_VALUES: Final = _list({"type": ["number", "null"]})
_COURSE: Final = {
    "type": ["object", "null"],
    "description": "The last values, the oldest first, `step` seconds apart, the newest read at `end`; null where"
    " nothing was read.",
}
_QUEUE_COURSE: Final = _COURSE | {
    "properties": {"step": _NUMBER, "end": _TIME, "ready": _VALUES, "delivering": _VALUES},
}
_CLIENT_COURSE: Final = _COURSE | {"properties": {"step": _NUMBER, "end": _TIME, "buffered": _VALUES}}
_CONDITION: Final = {
    **_SHORT,
    "consumers": {"type": "integer", "description": "How many of the client's consumers are in it."},
    "completeness": _object(
        polls={"type": "integer", "description": "Judged since it began, in the last five minutes at most."},
        due={"type": "integer", "description": "That should have been."},
        share={"type": "number", "description": "The one over the other, 0 to 1."},
    ),
    "evidence": {
        "type": "object",
        "additionalProperties": _object(value={"type": ["number", "null"]}, unit={"type": "string"}),
    },
    "rule": _text("The rule that holds, in words."),
    "causes": _list({"type": "string"}),
    "advice": _text("What to do, with the numbers it rests on."),
}
_OF: Final = (_query("address", "Only of this address."), _query("client", "Only of this client."))

OPENAPI: Final[Schema] = {
    "openapi": "3.1.0",
    "info": {
        "title": "Penstock",
        "version": __version__,
        "description": "Flow-control health of JMS brokers: queues, clients, conditions and what changed.",
    },
    "paths": {
        "/api/v1/brokers": _get("The configured brokers and their state", _object(brokers=_list(_ref("Broker")))),
        "/api/v1/queues": _list_of("queues", QUEUE_SORTS, _POINTS),
        "/api/v1/queues/{broker}/{address}/{queue}": _get(
            "All that is known of one queue",
            _ref("Explanation"),
            _path("broker"),
            _path("address"),
            _path("queue"),
            _query("client", "Only this client and the queue itself."),
        ),
        "/api/v1/clients": _list_of("clients", CLIENT_SORTS, *_OF, _POINTS),
        "/api/v1/consumers": _list_of("consumers", CONSUMER_SORTS, *_OF),
        "/api/v1/conditions": _list_of("conditions", (), *_OF, schema="StandingCondition"),
        "/api/v1/client": _get(
            "All that is known of one client",
            _ref("ClientView"),
            _query("broker", "Name of the broker.", required=True),
            _query("client", "Name of the client.", required=True),
        ),
        "/api/v1/recent": _get(
            "The last hour of one queue",
            _ref("Recent"),
            _query("broker", "Name of the broker.", required=True),
            _query("queue", "Name of the queue.", required=True),
            _query("address", "Its address, where several queues have this name."),
        ),
        "/api/v1/explain": _get(
            "The same, with the names as parameters",
            _ref("Explanation"),
            _query("broker", "Name of the broker.", required=True),
            _query("queue", "Name of the queue.", required=True),
            _query("address", "Its address, where several queues have this name."),
            _query("client", "Only this client and the queue itself."),
        ),
        "/api/v1/events": _get(
            "What changed, oldest first",
            _object(events=_list(_ref("Event"))),
            _query("since", "Only what happened at this time or later, seconds since 1970.", "number"),
            _query("broker", "Only of this broker."),
            _query("queue", "Only of this queue."),
            _LIMIT,
        ),
        "/api/v1/openapi.json": _get("This description", {"type": "object"}),
    },
    "components": {
        "schemas": {
            "Error": _object(error=_text("What is wrong."), hint=_text("What to do.")),
            "Broker": _object(
                name=_text("Its name."),
                kind=_text("artemis or openmq."),
                version=_text("Empty while unknown."),
                role=_text("active, passive, or empty while unknown."),
                up={"type": ["boolean", "null"], "description": "null before the first poll."},
                age={"type": ["number", "null"], "description": "Of the data, seconds."},
                error=_text("Why the last poll failed."),
                notes=_list({"type": "string"}),
                findings=_list(_ref("Finding")),
                numbers=_NUMBERS,
            ),
            "Queue": _object(
                broker=_text("Broker."),
                address=_text("Address."),
                queue=_text("Queue."),
                kind=_text("What it is there for."),
                owner=_text("By a rule."),
                team=_text("By a rule."),
                **dict.fromkeys((*QUEUE_NUMBERS, *QUEUE_MORE, "rate_in", "rate_out"), _NUMBER),
                conditions=_CONDITIONS,
                recent=_QUEUE_COURSE,
            ),
            "Client": _object(
                broker=_text("Broker."),
                address=_text("Address."),
                queue=_text("Queue."),
                client=_text("Client."),
                **dict.fromkeys(CLIENT_NUMBERS, _NUMBER),
                conditions=_CONDITIONS,
                recent=_CLIENT_COURSE,
            ),
            "Consumer": _object(
                broker=_text("Broker."),
                address=_text("Address."),
                queue=_text("Queue."),
                client=_text("Client."),
                consumer=_text("The broker's id of it."),
                protocol=_text("Protocol."),
                user=_text("User."),
                remote_host=_text("Where it is connected from."),
                session=_text("Session."),
                filter=_text("Its selector."),
                **dict.fromkeys((*CONSUMER_NUMBERS, *TIMES), _NUMBER),
                conditions=_CONDITIONS,
            ),
            "Condition": _object(**_CONDITION),
            "StandingCondition": _object(
                broker=_text("Broker."), address=_text("Address."), queue=_text("Queue."), **_CONDITION
            ),
            "ClientView": _object(
                broker=_text("Broker."),
                client=_text("Its name."),
                stamp=_TIME,
                conditions=_list(_ref("StandingCondition")),
                queues=_list(_ref("Client")),
                queues_left_out={"type": "integer"},
                sends_to=_list(_object(address={"type": "string"}, produced=_NUMBER)),
                connections=_list({"type": "object"}),
            ),
            "Recent": _object(
                broker=_text("Broker."),
                address=_text("Address."),
                queue=_text("Queue."),
                begin=_TIME,
                end=_TIME,
                course=_QUEUE_COURSE,
                clients=_list(_object(client={"type": "string"}, course=_CLIENT_COURSE)),
                clients_left_out={"type": "integer"},
                episodes=_list(
                    _object(
                        condition={"type": "string"},
                        client={"type": "string"},
                        severity=_SEVERITY,
                        since=_TIME,
                        to={"type": ["number", "null"], "description": "null while it holds."},
                    )
                ),
            ),
            "Finding": _object(
                rule=_text("Which rule, as the label of mq_config_finding."),
                scope=_text("broker, address, queue, client or connection."),
                object=_text("Name of what it is about; of a client QUEUE/CLIENT."),
                says=_text("What was found."),
                evidence={
                    "type": "object",
                    "additionalProperties": _object(value={"type": ["number", "null"]}, unit={"type": "string"}),
                },
                advice=_text("What to do, with the arithmetic."),
            ),
            "Explanation": _object(
                broker=_text("Broker."),
                address=_text("Address."),
                queue=_text("Queue."),
                client={"type": ["string", "null"]},
                kind=_text("What it is there for."),
                routing_type=_text("anycast or multicast."),
                stamp=_TIME,
                healthy={"type": "boolean", "description": "No warning and nothing critical that is not silenced."},
                conditions=_list(_ref("Condition")),
                numbers=_NUMBERS,
                rate_in={"type": ["number", "null"], "description": "Messages a second."},
                rate_out={"type": ["number", "null"], "description": "Messages a second."},
                ring={"type": ["object", "null"], "description": "Size, where it comes from, the ledger of evictions."},
                flow={
                    "type": "array",
                    "items": {"type": "object"},
                    "description": "OpenMQ: of consumers shown one by one the measured limit and resume level.",
                },
                connections={
                    "type": "array",
                    "items": {"type": "object"},
                    "description": "OpenMQ: what connections hold whose connection_flow_limit a rule tells.",
                },
                rules=_list(_object(key={"type": "string"}, value={}, rule={"type": "integer"})),
                clients=_list(_object(client={"type": "string"}, numbers=_NUMBERS, patience={}, rules={})),
                clients_left_out={"type": "integer"},
                findings=_list(_ref("Finding")),
                unknown=_list(_object(what={"type": "string"}, why={"type": "string"})),
            ),
            "Event": _object(
                time=_TIME,
                change=_text("What happened, such as condition_on or broker_down."),
                broker={"type": "string"},
                address={"type": "string"},
                queue={"type": "string"},
                client={"type": "string"},
                condition={"type": "string"},
                severity={"type": "string"},
                since={"type": ["number", "null"]},
                detail={"type": "string"},
            ),
        }
    },
}
