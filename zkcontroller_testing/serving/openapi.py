"""The table of routes as an OpenAPI 3.1 document."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final, get_type_hints

import msgspec

from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.refusals import CODES
from zkcontroller_testing.serving.routes import ApiRoute
from zkcontroller_testing.serving.served_request import PATH_PARAMETERS

_REFERENCES: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"


def document(routes: Sequence[ApiRoute]) -> dict[str, Any]:
    """The OpenAPI document of the routes, as ``GET /openapi.json`` sends it."""
    types = [bodies.ErrorBody]
    types += [route.body for route in routes if route.has_body]
    types += [route.response for route in routes if isinstance(route.response, type)]
    structs = [each for each in dict.fromkeys(types) if issubclass(each, msgspec.Struct)]
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REFERENCES)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "zkctl serve",
            "version": version("zkcontroller"),
            "description": "Real Kafka clusters for tests, and faults to cause in them.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: ApiRoute) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary.replace("``", ""),
        "parameters": [*map(_path_parameter, route.path_parameters), *_query_parameters(route)],
        "responses": _responses(route),
    }
    if route.has_body:
        operation["requestBody"] = {
            "required": bool(_required(route)),
            "content": {_JSON: {"schema": _reference(route.body)}},
        }
    return operation


def _responses(route: ApiRoute) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Success."}
    if route.response is not None:
        is_struct = (
            issubclass(route.response, msgspec.Struct) if _is_class(route.response) else False
        )
        schema = _reference(route.response) if is_struct else {"type": "object"}
        success["content"] = {_JSON: {"schema": schema}}
    found: dict[str, Any] = {str(int(route.status)): success}
    for status in sorted({int(each) for each, _ in CODES.values()}):
        codes = [code for code, (each, _) in CODES.items() if each == status]
        found[str(status)] = {
            "description": ", ".join(codes),
            "content": {_JSON: {"schema": _reference(bodies.ErrorBody)}},
        }
    return found


def _is_class(found: object) -> bool:
    return isinstance(found, type)


def _reference(struct: type[Any]) -> dict[str, str]:
    return {"$ref": _REFERENCES.format(name=struct.__name__)}


def _path_parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
    if name == "topic":
        schema = {"type": "string", "minLength": 1, "maxLength": 249}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": PATH_PARAMETERS[name],
        "schema": schema,
    }


def _query_parameters(route: ApiRoute) -> list[dict[str, Any]]:
    if route.has_body:
        return []
    hints = get_type_hints(route.body, include_extras=True)
    return [
        {
            "name": name,
            "in": "query",
            "required": name in _required(route),
            "schema": msgspec.json.schema(hints[name]),
        }
        for name in route.body.__struct_fields__
    ]


def _required(route: ApiRoute) -> tuple[str, ...]:
    return tuple(each.name for each in msgspec.structs.fields(route.body) if each.required)
