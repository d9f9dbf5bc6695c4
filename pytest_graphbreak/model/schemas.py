"""The JSON Schemas of the files that are written, derived from the code.

    python -m pytest_graphbreak.model.schemas

writes them into the package. The schemas of the report and of a baseline file are derived
completely: from ``model.report``, where the text below a field is its description, and from
``BASELINE``, which is loaded by name and not imported
at the top.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from pytest_graphbreak.model import budget, differences, record
from pytest_graphbreak.model import report as reports
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.json import form
from pytest_graphbreak.model.layers import BREAKING, BY_NAME, LAYERS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport

HOME: Final = Path(__file__).parents[1] / "schemas"
BASELINE: Final = "pytest_graphbreak.baseline.form"

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
_DATA: Final = (record, budget, differences, reports)
_READING: Final = {
    *("default", "optional", "maximum", "minLength", "maxLength", "minProperties", "maxProperties")
}


def schema(name: str) -> Plain:
    """Return the schema of ``report`` or ``baseline``, for the existing layers."""
    data: Plain = json.loads(derive(name))
    return data


def derive(name: str) -> str:
    """Return the text of a schema file."""
    described = report() if name == "report" else import_module(BASELINE).schema()
    return f"{json.dumps(described, indent=1)}\n"


def report() -> Plain:
    """Return the schema of the report, derived from its types."""
    (_, schemas) = msgspec.json.schema_components([form()])
    classes = {name: cls for module in _DATA for name, cls in vars(module).items()}
    descriptions = _descriptions()
    for name, schema in schemas.items():
        for cls in (Record, TestReport) if name == "Test" else (classes.get(name),):
            _describe(schema, cls, descriptions)
    definitions = {name: _as_written(schema) for name, schema in schemas.items()}
    report_schema = definitions.pop("Report")
    return {**REPORT, **report_schema, "$defs": {**LISTS, "where": WHERE, **definitions}}


def _descriptions() -> dict[tuple[str, str], str]:
    """Return the text below each field in the source, by class and field."""
    descriptions = {}
    for node in (node for module in _DATA for node in ast.parse(inspect.getsource(module)).body):
        for pair in pairwise(getattr(node, "body", ())):
            match node, *pair:
                case (
                    ast.ClassDef(name),
                    ast.AnnAssign(target=ast.Name(key)),
                    ast.Expr(ast.Constant(str(text))),
                ):
                    descriptions[name, key] = " ".join(text.split())
    return descriptions


def _describe(schema: Plain, cls: Any, descriptions: Mapping[tuple[str, str], str]) -> None:
    """Add the descriptions of the fields of a class, and of its bases, to its schema."""
    for field in msgspec.structs.fields(cls) if cls else ():
        texts = (descriptions.get((base.__name__, field.name)) for base in cls.__mro__)
        if text := next(filter(None, texts), ""):
            key = schema["properties"][field.encode_name]
            schema["properties"][field.encode_name] = {"description": text, **key}


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


def main() -> None:
    for path in HOME.glob("*.json"):
        path.write_text(derive(path.stem), encoding="utf-8")


if __name__ == "__main__":
    main()
