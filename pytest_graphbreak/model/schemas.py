"""The JSON Schemas of the files that are written: their lists of layers and causes are derived.

    python -m pytest_graphbreak.model.schemas

writes the lists into the files that ship with the package, after a layer was added.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pytest_graphbreak.model.layers import BREAKING, BY_NAME, LAYERS
from pytest_graphbreak.model.record import Plain

HOME: Final = Path(__file__).parents[1] / "schemas"

LISTS: Final = {"layer": LAYERS, "breaking": BREAKING, "cause": tuple(BY_NAME)}
"""What the ``enum`` of a definition is, by its name under ``$defs``."""


def schema(name: str) -> Plain:
    """The schema of ``report``, ``baseline`` or ``comparison``, for the layers that there are."""
    found: Plain = json.loads(derived(name))
    return found


def derived(name: str) -> str:
    """The text of a schema, with the lists as they are to be."""
    text = (HOME / f"{name}.json").read_text(encoding="utf-8")
    definitions = json.loads(text)["$defs"]
    for key in LISTS.keys() & definitions.keys():
        written = json.dumps(definitions[key]["enum"])
        text = text.replace(f'"enum": {written}', f'"enum": {json.dumps(LISTS[key])}')
    return text


def main() -> None:
    for path in HOME.glob("*.json"):
        path.write_text(derived(path.stem), encoding="utf-8")


if __name__ == "__main__":
    main()
