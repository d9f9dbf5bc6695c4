"""The JSON Schema of the report, derived from ``model.report`` and the types that it holds.

``baseline.schemas`` writes it into the package, beside that of a baseline file.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.json import form
from pytest_graphbreak.model.layers import BREAKING, BY_NAME, LAYERS

REPORT: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "pytest-graphbreak report, version 1",
    "description": "What --graph-budget-report, graphbreak run and graphbreak analyze write. "
    "Readers ignore keys that they do not know.",
}


LISTS: Final[dict[str, Plain]] = {
    "layer": {"description": "Where graphs are counted.", "enum": list(LAYERS)},
    "breaking": {
        "description": "A layer that code can leave; dynamo if left out.",
        "enum": list(BREAKING),
    },
    "cause": {
        "description": "Why the graph exists. dynamo: entry, break, callee, bucket, recompile; "
        "xla and tt: the others and recompile.",
        "enum": list(BY_NAME),
    },
}
WHERE: Final = {
    "description": "A place in the source; {} if there is none.",
    "anyOf": [{"type": "object", "maxProperties": 0}, {"$ref": "#/$defs/Frame"}],
}
_READING: Final = {
    *("default", "optional", "maximum", "minLength", "maxLength", "minProperties", "maxProperties")
}


def report() -> Plain:
    """Return the schema of the report, derived from its types."""
    (_, schemas) = msgspec.json.schema_components([form()])
    definitions = {name: _as_written(schema) for name, schema in schemas.items()}
    report_schema = definitions.pop("Report")
    return {**REPORT, **report_schema, "$defs": {**LISTS, "where": WHERE, **definitions}}


def _as_written(schema: Any) -> Any:
    """Return the schema for written data: without defaults and bounds, which are for reading."""
    if isinstance(schema, list):
        return [_as_written(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "is" in schema or "$ref" in schema:
        reference = (
            {"$ref": f"#/$defs/{schema['is']}"} if "is" in schema else {"$ref": schema["$ref"]}
        )
        return {**_about(schema), **reference}
    if "properties" not in schema:
        parts = {key: _as_written(part) for key, part in schema.items() if key not in _READING}
        return {key: part for key, part in parts.items() if part != {}}
    keys = {key: part for key, part in schema["properties"].items() if "local" not in part}
    return {
        "type": "object",
        "properties": {key: _as_written(part) for key, part in keys.items()},
        "required": [key for key, part in keys.items() if "optional" not in part],
    }


def _about(schema: Plain) -> Plain:
    return {"description": schema["description"]} if "description" in schema else {}
