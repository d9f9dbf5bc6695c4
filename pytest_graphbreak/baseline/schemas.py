"""The JSON Schemas of the files that are written, derived from their types.

    python -m pytest_graphbreak.baseline.schemas

writes them into the package: ``report.json`` from ``model.schemas``, ``baseline.json`` from
``baseline.form``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pytest_graphbreak.baseline import form
from pytest_graphbreak.model import schemas
from pytest_graphbreak.model.forms import Plain

HOME: Final = Path(__file__).parents[1] / "schemas"

SCHEMAS: Final[Mapping[str, Callable[[], Plain]]] = {
    "report": schemas.report,
    "baseline": form.schema,
}
"""What derives each schema, by the name of its file."""


def derive(name: str) -> str:
    """Return the text of a schema file: ``report`` or ``baseline``."""
    return f"{json.dumps(SCHEMAS[name](), indent=1)}\n"


def main() -> None:
    for name in SCHEMAS:
        (HOME / f"{name}.json").write_text(derive(name), encoding="utf-8")


if __name__ == "__main__":
    main()
