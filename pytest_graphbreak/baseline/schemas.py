"""The JSON Schemas of the report and of a baseline file, derived from their types.

    python -m pytest_graphbreak.baseline.schemas

writes them into the package: ``report.json`` from ``model.report``, ``baseline.json`` from
``baseline.form``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pytest_graphbreak.baseline import form
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.json import form as json_form
from pytest_graphbreak.model.layers import BREAKING, BY_NAME, LAYERS

HOME: Final = Path(__file__).parents[1] / "schemas"
"""The directory of the schema files."""
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

REPORT: Final = {
    "$schema": DRAFT,
    "title": "pytest-graphbreak report, version 1",
    "description": "What --graph-budget-report, graphbreak run and graphbreak analyze write. "
    "Readers ignore keys that they do not know.",
}


# What the types of the report name (``model.forms.definition``): each list of words once.
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
"""Keys of a schema that say what a reader takes, and nothing of what is written."""


def report() -> Plain:
    """Return the schema of the report, derived from its types."""
    (_, schemas) = msgspec.json.schema_components([json_form()])
    definitions = {name: _as_written(schema) for name, schema in schemas.items()}
    report_schema = definitions.pop("Report")
    return {**REPORT, **report_schema, "$defs": {**LISTS, "where": WHERE, **definitions}}


def _as_written(schema: Any) -> Any:
    """Return the schema for written data: without defaults and bounds, which are for reading.

    msgspec makes schemas of types, with what ``model.forms`` adds to them::

        {"is": "layer", "enum": [...]}              becomes {"$ref": "#/$defs/layer"}
        {"type": "string", "maxLength": 200}        becomes {"type": "string"}
        a key with "local"                          is left out
        every key without "optional"                is required
    """
    if isinstance(schema, list):
        return [_as_written(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "is" in schema or "$ref" in schema:
        about = {key: schema[key] for key in ("description",) if key in schema}
        return {**about, "$ref": f"#/$defs/{schema['is']}" if "is" in schema else schema["$ref"]}
    if "properties" not in schema:
        parts = {key: _as_written(part) for key, part in schema.items() if key not in _READING}
        return {key: part for key, part in parts.items() if part != {}}
    keys = {key: part for key, part in schema["properties"].items() if "local" not in part}
    return {
        "type": "object",
        "properties": {key: _as_written(part) for key, part in keys.items()},
        "required": [key for key, part in keys.items() if "optional" not in part],
    }


def baseline() -> Plain:
    """Return the JSON Schema of a baseline file.

    Its types are for files alone, so all that they say stays but defaults and names of classes.
    """
    _, definitions = msgspec.json.schema_components(
        (form.File, form.Entry, form.Cases), ref_template="#/$defs/{name}"
    )
    file = definitions.pop("File")
    for definition in definitions.values():
        del definition["title"]
        for key in definition["properties"].values():
            key.pop("default", None)
    return {
        "$schema": DRAFT,
        "title": "pytest-graphbreak baseline file, version 1",
        "description": "The graphs that the tests of one file make, and the breaks that are known. "
        "One YAML file for each test file.",
        **{key: value for key, value in file.items() if key != "title"},
        "$defs": dict(sorted(definitions.items())),
    }


SCHEMAS: Final[Mapping[str, Callable[[], Plain]]] = {"report": report, "baseline": baseline}
"""What derives each schema, by the name of its file."""


def derive(name: str) -> str:
    """Return the text of a schema file: ``report`` or ``baseline``."""
    return f"{json.dumps(SCHEMAS[name](), indent=1)}\n"


def main() -> None:
    for name in SCHEMAS:
        (HOME / f"{name}.json").write_text(derive(name), encoding="utf-8")


if __name__ == "__main__":
    main()
