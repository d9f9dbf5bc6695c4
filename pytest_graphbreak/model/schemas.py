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
WIDTH: Final = 100
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
    found: Plain = json.loads(derived(name))
    return found


def derived(name: str) -> str:
    """Return the derived text of a schema file."""
    if name == "report":
        return f"{_text(report())}\n"
    return f"{_text(import_module(BASELINE).schema())}\n"


def report() -> Plain:
    """Return the schema of the report, derived from its types."""
    (_, found) = msgspec.json.schema_components([form()])
    classes = {name: cls for module in _DATA for name, cls in vars(module).items()}
    said = _said()
    for name, schema in found.items():
        for cls in (Record, TestReport) if name == "Test" else (classes.get(name),):
            _describe(schema, cls, said)
    definitions = {name: _written(one) for name, one in found.items()}
    whole = definitions.pop("Report")
    return {**REPORT, **whole, "$defs": {**LISTS, "where": WHERE, **definitions}}


def _said() -> dict[tuple[str, str], str]:
    """Return the text below each field in the source, by class and field."""
    found = {}
    for node in (node for module in _DATA for node in ast.parse(inspect.getsource(module)).body):
        for pair in pairwise(getattr(node, "body", ())):
            match node, *pair:
                case (
                    ast.ClassDef(name),
                    ast.AnnAssign(target=ast.Name(key)),
                    ast.Expr(ast.Constant(str(text))),
                ):
                    found[name, key] = " ".join(text.split())
    return found


def _describe(schema: Plain, cls: Any, said: Mapping[tuple[str, str], str]) -> None:
    """Add the descriptions of the fields of a class, and of its bases, to its schema."""
    for field in msgspec.structs.fields(cls) if cls else ():
        found = (said.get((base.__name__, field.name)) for base in cls.__mro__)
        if text := next(filter(None, found), ""):
            key = schema["properties"][field.encode_name]
            schema["properties"][field.encode_name] = {"description": text, **key}


def _written(said: Any) -> Any:
    """Return the schema for written data: without defaults and bounds, which are for reading."""
    if isinstance(said, list):
        return [_written(one) for one in said]
    if not isinstance(said, dict):
        return said
    if "is" in said or "$ref" in said:
        reference = {"$ref": f"#/$defs/{said['is']}"} if "is" in said else {"$ref": said["$ref"]}
        return {**_about(said), **reference}
    if "properties" not in said:
        kept = {key: _written(one) for key, one in said.items() if key not in _READING}
        return {key: one for key, one in kept.items() if one != {}}
    keys = {key: one for key, one in said["properties"].items() if "local" not in one}
    return {
        "type": "object",
        "properties": {key: _written(one) for key, one in keys.items()},
        "required": [key for key, one in keys.items() if "optional" not in one],
    }


def _about(said: Plain) -> Plain:
    return {"description": said["description"]} if "description" in said else {}


def _text(value: Any, indent: str = "", before: int = 0) -> str:
    """Format JSON for people: whatever fits on a line is on one line."""
    line = json.dumps(value)
    if len(indent) + before + len(line) < WIDTH or not value or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        keys = ((f"{json.dumps(key)}: ", item) for key, item in value.items())
        parts = [key + _text(item, deeper, len(key)) for key, item in keys]
    else:
        parts = [_text(item, deeper) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = ",\n".join(deeper + part for part in parts)
    return f"{opening}\n{inner}\n{indent}{closing}"


def main() -> None:
    for path in HOME.glob("*.json"):
        path.write_text(derived(path.stem), encoding="utf-8")


if __name__ == "__main__":
    main()
