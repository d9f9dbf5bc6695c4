"""The JSON Schemas of the files that are written, derived from what the code says of them.

    python -m pytest_graphbreak.model.schemas

writes them into the package. Those of the report and of a baseline file are all of them derived,
from ``model.report`` and from ``BASELINE``, which is found by its name and not imported above; of
that of a comparison, the lists of layers and causes.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.model.budget import BREAKS
from pytest_graphbreak.model.described import schema as described
from pytest_graphbreak.model.fields import CAUSE, LAYER
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.report import RunReport

HOME: Final = Path(__file__).parents[1] / "schemas"
WIDTH: Final = 100
BASELINE: Final = "pytest_graphbreak.baseline.form"

REPORT: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "pytest-graphbreak report, version 1",
    "description": "What --graph-budget-report, graphbreak run and graphbreak analyze write. "
    "Readers ignore keys that they do not know.",
}


def schema(name: str) -> Plain:
    """The schema of ``report``, ``baseline`` or ``comparison``, for the layers that there are."""
    found: Plain = json.loads(derived(name))
    return found


def derived(name: str) -> str:
    """The text of a schema, as it is to be."""
    if name == "report":
        return f"{_text({**REPORT, **described(RunReport)})}\n"
    if name == "baseline":
        return f"{_text(import_module(BASELINE).schema())}\n"
    text = (HOME / f"{name}.json").read_text(encoding="utf-8")
    definitions = json.loads(text)["$defs"]
    for one in (LAYER, BREAKS, CAUSE):
        if one.name in definitions:
            written = json.dumps(definitions[one.name]["enum"])
            text = text.replace(f'"enum": {written}', f'"enum": {json.dumps(one.words)}')
    return text


def _text(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON as a person would lay it out: what fits on a line stands on one."""
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
